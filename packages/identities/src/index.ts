export type { AccessToken } from './accessToken.ts';
export {
  type AwsCredentials,
  type AwsIdentity,
  fetchAwsCredentials,
  type SignedRequest,
  signAws,
} from './aws.ts';
export {
  type AzureIdentity,
  type AzureSource,
  azureSource,
  type Environment,
  fetchAzureToken,
} from './azure.ts';
export { type BoundedFetchOptions, boundedFetch } from './boundedFetch.ts';
export { type ClientCredentials, fetchClientToken } from './clientCredentials.ts';
export { fetchGoogleToken, type GoogleIdentity, type GoogleToken } from './google.ts';
export { IdentityError } from './identityError.ts';
export { GOOGLE_TOKEN_URL, parseServiceAccount } from './serviceAccount.ts';
