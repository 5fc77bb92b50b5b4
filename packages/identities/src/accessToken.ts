import { IdentityError } from './identityError.ts';

/** What an identity provider issues for a while. */
export interface AccessToken<Value = string> {
  readonly value: Value;
  /** Counted from when it was asked for. */
  readonly lifeMs: number;
}

/** A longer life is not trusted: a timer of Node can't hold it, and no provider means it. */
const MAX_LIFE_MS = 7 * 24 * 3_600_000;
const MAX_TOKEN = 16_384;

/** A token for the `authorization` header; throws an IdentityError if it can't be sent. `provider` begins the sentence. */
export function bearerToken(value: string, lifeMs: number, provider: string): AccessToken {
  if (value.length > MAX_TOKEN || !/^[\x21-\x7e]+$/.test(value)) {
    throw new IdentityError(`${provider} issued a token that cannot be sent in a header.`, {
      isRefused: true,
    });
  }
  if (!(lifeMs > 0)) throw new IdentityError(`${provider} issued a token that has expired already.`);
  return { value, lifeMs: Math.min(lifeMs, MAX_LIFE_MS) };
}
