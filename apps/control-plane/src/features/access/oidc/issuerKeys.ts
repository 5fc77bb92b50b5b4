import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import { errors, type JWTVerifyGetKey } from 'jose';
import type { KeySet } from './issuer.ts';

export interface IssuerKeysDeps {
  readonly readKeys: () => Promise<KeySet>;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** Keys are used for this long before they are read again. */
const FRESH_MS = 5 * 60_000;
/** Keys are used for at most this long while the issuer is unavailable. */
const MAX_AGE_MS = 60 * 60_000;
/** The least time between two reads, whatever tokens arrive. */
const RETRY_MS = 10_000;

/**
 * Caches the issuer's keys. A token with an unknown key makes it read them again, so that the issuer can rotate its keys.
 * Concurrent callers share one read. Throws 503 if the keys have to be read and the issuer is unavailable.
 */
export function createIssuerKeys({ readKeys, now, logger }: IssuerKeysDeps): JWTVerifyGetKey {
  let cached: { readonly keys: KeySet; readonly at: number } | undefined;
  let lastRead: { readonly at: number; readonly failure: unknown } | undefined;
  let reading: Promise<void> | undefined;

  const isWithin = (ms: number, at: number | undefined): boolean => {
    const age = at === undefined ? -1 : now().getTime() - at;
    // After the clock was set back, no age is known.
    return age >= 0 && age < ms;
  };

  async function read(): Promise<void> {
    const at = now().getTime();
    try {
      cached = { keys: await readKeys(), at };
      lastRead = { at, failure: undefined };
    } catch (failure) {
      lastRead = { at, failure };
      logger.warn({ err: failure }, 'failed to read the keys of the OIDC issuer');
    }
  }

  async function readUnlessJustRead(): Promise<void> {
    if (isWithin(RETRY_MS, lastRead?.at)) return;
    reading ??= read().finally(() => {
      reading = undefined;
    });
    await reading;
  }

  function usableKeys(): KeySet {
    if (cached && isWithin(MAX_AGE_MS, cached.at)) return cached.keys;
    throw unavailable(lastRead?.failure);
  }

  return async (header, token) => {
    if (!isWithin(FRESH_MS, cached?.at)) await readUnlessJustRead();
    try {
      return await usableKeys()(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    }
    await readUnlessJustRead();
    // The issuer may have published the key meanwhile: without its response, the token can't be judged.
    if (lastRead?.failure !== undefined) throw unavailable(lastRead.failure);
    return await usableKeys()(header, token);
  };
}

function unavailable(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'oidc_issuer_unavailable',
    'The OIDC issuer is unavailable, so its tokens cannot be verified. Try again, or use a key.',
    { headers: { 'retry-after': String(RETRY_MS / 1_000) }, cause },
  );
}
