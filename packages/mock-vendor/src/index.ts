export { type AzureResource, type AzureResourceOptions, startAzureResource } from './azure/azureResource.ts';
export { type Entra, type EntraOptions, startEntra } from './azure/entra.ts';
export type { EntraApp } from './azure/entraRequest.ts';
export { type AwsTokens, type AwsTokensOptions, startAwsTokens } from './bedrock/awsTokens.ts';
export { type Bedrock, type BedrockOptions, startBedrock } from './bedrock/bedrock.ts';
export { type Mantle, type MantleOptions, startMantle } from './bedrock/mantle.ts';
export type { AwsAccount } from './bedrock/sigV4.ts';
export { type MockVendor, type MockVendorOptions, startMockVendor } from './mockVendor.ts';
export {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from './oauth/authorizationServer.ts';
export { startTokenGateway, type TokenGateway } from './oauth/tokenGateway.ts';
export type { BillEntry } from './records/bill.ts';
export type { RecordedRequest } from './records/recorder.ts';
export type { VendorTraits } from './shared/traits.ts';
export type { VendorPrice, VendorRates } from './shared/vendorPrice.ts';
export { type GoogleTokens, type GoogleTokensOptions, startGoogleTokens } from './vertex/googleTokens.ts';
export { startVertex, type Vertex, type VertexCall, type VertexOptions } from './vertex/vertex.ts';
