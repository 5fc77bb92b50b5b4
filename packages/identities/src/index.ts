export type { AccessToken } from './accessToken.ts';
export {
  type AwsCredentials,
  type AwsIdentity,
  fetchAwsCredentials,
  type SignedRequest,
  signAws,
} from './aws.ts';
export { type ClientCredentials, fetchClientToken } from './clientCredentials.ts';
export { IdentityError } from './identityError.ts';
