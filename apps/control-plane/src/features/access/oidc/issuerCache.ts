import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';

export interface IssuerCacheDeps<T> {
  readonly read: () => Promise<T>;
  readonly now: () => Date;
  readonly logger: Logger;
  /** What is read, for the log. */
  readonly what: string;
}

/** What an issuer publishes. Both methods throw 503 if it has to be read and the issuer is unavailable. */
export interface IssuerCache<T> {
  get(): Promise<T>;
  /** Reads it again, unless it was read just now. */
  renew(): Promise<T>;
}

/** It is used for this long before it is read again. */
const FRESH_MS = 5 * 60_000;
/** It is used for at most this long while the issuer is unavailable. */
const MAX_AGE_MS = 60 * 60_000;
/** The least time between two reads, whatever is asked for. */
const RETRY_MS = 10_000;

/** Caches what an issuer publishes. Concurrent callers share one read. */
export function createIssuerCache<T>({ read, now, logger, what }: IssuerCacheDeps<T>): IssuerCache<T> {
  let cached: { readonly value: T; readonly at: number } | undefined;
  let lastRead: { readonly at: number; readonly failure: unknown } | undefined;
  let reading: Promise<void> | undefined;

  const isWithin = (ms: number, at: number | undefined): boolean => {
    const age = at === undefined ? -1 : now().getTime() - at;
    // After the clock was set back, no age is known.
    return age >= 0 && age < ms;
  };

  async function readNow(): Promise<void> {
    const at = now().getTime();
    try {
      cached = { value: await read(), at };
      lastRead = { at, failure: undefined };
    } catch (failure) {
      lastRead = { at, failure };
      logger.warn({ err: failure }, `failed to read the ${what} of the OIDC issuer`);
    }
  }

  async function readUnlessJustRead(): Promise<void> {
    if (isWithin(RETRY_MS, lastRead?.at)) return;
    reading ??= readNow().finally(() => {
      reading = undefined;
    });
    await reading;
  }

  function usable(): T {
    if (cached && isWithin(MAX_AGE_MS, cached.at)) return cached.value;
    throw unavailable(lastRead?.failure);
  }

  return {
    async get() {
      if (!isWithin(FRESH_MS, cached?.at)) await readUnlessJustRead();
      return usable();
    },
    async renew() {
      await readUnlessJustRead();
      // What is new can't be told without the issuer's response.
      if (lastRead?.failure !== undefined) throw unavailable(lastRead.failure);
      return usable();
    },
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
