/** Why there is no access token. Its message is for the operator, and contains no secret. */
export class IdentityError extends Error {
  /** The identity is wrong, expired or revoked, so trying again will not help; otherwise its provider did not answer well. */
  readonly isRefused: boolean;

  constructor(message: string, { isRefused = false }: { readonly isRefused?: boolean } = {}) {
    super(message);
    this.isRefused = isRefused;
  }
}
