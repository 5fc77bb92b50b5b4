/** The clouds and their identity providers, for tests alone: nothing of it is in what `up` loads. */

export { type AzureResource, type AzureResourceOptions, startAzureResource } from './azure/azureResource.ts';
export { type Entra, type EntraOptions, startEntra } from './azure/entra.ts';
export type { EntraApp } from './azure/entraRequest.ts';
export { type AwsTokens, type AwsTokensOptions, startAwsTokens } from './bedrock/awsTokens.ts';
export { type Bedrock, type BedrockOptions, startBedrock } from './bedrock/bedrock.ts';
export { type Mantle, type MantleOptions, startMantle } from './bedrock/mantle.ts';
export { type S3, type S3Call, type S3Fault, type S3Options, startS3 } from './bedrock/s3.ts';
export type { AwsAccount } from './bedrock/sigV4.ts';
export {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from './oauth/authorizationServer.ts';
export { startTokenGateway, type TokenGateway } from './oauth/tokenGateway.ts';
export { type GoogleTokens, type GoogleTokensOptions, startGoogleTokens } from './vertex/googleTokens.ts';
export { startVertex, type Vertex, type VertexCall, type VertexOptions } from './vertex/vertex.ts';
