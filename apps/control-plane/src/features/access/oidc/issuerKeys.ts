import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import { errors, type JWTVerifyGetKey } from 'jose';
import type { KeySet } from './issuer.ts';

export interface IssuerKeysDeps {
  readonly readKeys: () => Promise<KeySet>;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** So long keys are used without a question. */
const FRESH_MS = 5 * 60_000;
/** And so long at most while the issuer does not answer. */
const KEPT_MS = 60 * 60_000;
/** The issuer is asked again no sooner, whatever tokens come. */
const ASK_AGAIN_MS = 10_000;

/**
 * The issuer's keys, kept for a while. A token of a key that is not known has the issuer asked again, so that it may
 * replace its keys. One question at a time, for all who wait. 503 where the issuer has to be asked and does not answer.
 */
export function createIssuerKeys({ readKeys, now, logger }: IssuerKeysDeps): JWTVerifyGetKey {
  let kept: { readonly keys: KeySet; readonly at: number } | undefined;
  let asked: { readonly at: number; readonly failure: unknown } | undefined;
  let underway: Promise<void> | undefined;

  const isWithin = (ms: number, at: number | undefined): boolean => {
    const age = at === undefined ? -1 : now().getTime() - at;
    // A clock that was set back makes nothing fresh.
    return age >= 0 && age < ms;
  };

  async function ask(): Promise<void> {
    const at = now().getTime();
    try {
      kept = { keys: await readKeys(), at };
      asked = { at, failure: undefined };
    } catch (failure) {
      asked = { at, failure };
      logger.warn({ err: failure }, 'the OIDC issuer gave no keys');
    }
  }

  async function askUnlessJustAsked(): Promise<void> {
    if (isWithin(ASK_AGAIN_MS, asked?.at)) return;
    underway ??= ask().finally(() => {
      underway = undefined;
    });
    await underway;
  }

  function usableKeys(): KeySet {
    if (kept && isWithin(KEPT_MS, kept.at)) return kept.keys;
    throw unreachable(asked?.failure);
  }

  return async (header, token) => {
    if (!isWithin(FRESH_MS, kept?.at)) await askUnlessJustAsked();
    try {
      return await usableKeys()(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
    }
    await askUnlessJustAsked();
    // Whether it has such a key by now, only the issuer could tell.
    if (asked?.failure !== undefined) throw unreachable(asked.failure);
    return await usableKeys()(header, token);
  };
}

function unreachable(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'oidc_issuer_unavailable',
    'Tokens of the OIDC issuer can not be checked now, because it does not answer. Try again; keys work all the same.',
    { headers: { 'retry-after': String(ASK_AGAIN_MS / 1_000) }, cause },
  );
}
