export type { AccessToken } from './accessToken.ts';
export { type ClientCredentials, fetchClientToken } from './clientCredentials.ts';
export { IdentityError } from './identityError.ts';
