import { type AccessToken, IdentityError } from '@weighbridge/identities';

export interface TokenSourceDeps<Value> {
  /** Asks the identity provider. Rejects with an IdentityError. */
  readonly fetchToken: () => Promise<AccessToken<Value>>;
  /** What tells a token from another one. */
  readonly nameOf: (value: Value) => string;
  /** Called for each failure; `hasToken`: the last token still serves. */
  readonly onFailed: (error: IdentityError, hasToken: boolean) => void;
  /** Monotonic, so that a wrong clock changes nothing. */
  readonly nowMs: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** How long a request waits, whatever hangs below it. */
  readonly maxWaitMs: number;
}

interface HeldToken<Value> {
  readonly value: Value;
  readonly askedAtMs: number;
  readonly refreshAtMs: number;
  readonly expiresAtMs: number;
}

/** The share of its life after which a token is refreshed, so that proxies do not all ask at once. */
const REFRESH_AT = [0.75, 0.85] as const;
/** A token is not sent in the last part of its life: it may expire on its way. */
const SAFETY = 0.05;
const MAX_SAFETY_MS = 10_000;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** Requests wait for a token that no one has: then a failure keeps the provider alone for less. */
const MAX_PAUSE_WITHOUT_TOKEN_MS = 5_000;
/** A younger token that the vendor refuses is not asked for again: a new one would be refused too. */
export const RENEW_AFTER_MS = 10_000;

/**
 * The access token of one connector. It is asked for when a request needs it, once for all that wait, and again before it
 * expires, while requests go on with the one that is held. If the identity provider fails, the last token serves until it
 * expires.
 */
export class TokenSource<Value = string> {
  readonly #deps: TokenSourceDeps<Value>;
  #held: HeldToken<Value> | undefined;
  #fetching: Promise<Value> | undefined;
  #failures = 0;
  #failure: IdentityError | undefined;
  /** The provider is not asked before. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(deps: TokenSourceDeps<Value>) {
    this.#deps = deps;
  }

  /** The token, if one is held. */
  held(): Value | undefined {
    const held = this.#held;
    if (held === undefined) return undefined;
    const nowMs = this.#deps.nowMs();
    if (nowMs >= held.expiresAtMs) return undefined;
    if (nowMs >= held.refreshAtMs) this.#refresh(nowMs);
    return held.value;
  }

  /** The token; a promise only if none is held. Rejects with an IdentityError. */
  get(): Value | Promise<Value> {
    const held = this.held();
    if (held !== undefined) return held;
    const nowMs = this.#deps.nowMs();
    if (this.#fetching === undefined && nowMs < this.#notBeforeMs && this.#failure) {
      return Promise.reject(this.#failure);
    }
    return this.#fetch();
  }

  /** The vendor refused this token: resolves with whether there is another one now. Never rejects. */
  async renew(refused: string): Promise<boolean> {
    const { nameOf } = this.#deps;
    const nowMs = this.#deps.nowMs();
    const held = this.#held;
    if (!held || nameOf(held.value) !== refused) return held !== undefined;
    if (nowMs - held.askedAtMs < RENEW_AFTER_MS || nowMs < this.#notBeforeMs) return false;
    return await this.#fetch().then(
      (value) => nameOf(value) !== refused,
      () => false,
    );
  }

  #refresh(nowMs: number): void {
    if (this.#fetching !== undefined || nowMs < this.#notBeforeMs) return;
    // A failure was reported.
    this.#fetch().catch(() => {});
  }

  #fetch(): Promise<Value> {
    this.#fetching ??= this.#load().finally(() => {
      this.#fetching = undefined;
    });
    return this.#fetching;
  }

  async #load(): Promise<Value> {
    const { fetchToken, nowMs, random, maxWaitMs } = this.#deps;
    const askedAtMs = nowMs();
    try {
      const { value, lifeMs } = await within(maxWaitMs, fetchToken());
      const [from, to] = REFRESH_AT;
      this.#held = {
        value,
        askedAtMs,
        refreshAtMs: askedAtMs + lifeMs * (from + (to - from) * random()),
        expiresAtMs: askedAtMs + lifeMs - Math.min(lifeMs * SAFETY, MAX_SAFETY_MS),
      };
      this.#failures = 0;
      this.#failure = undefined;
      this.#notBeforeMs = Number.NEGATIVE_INFINITY;
      return value;
    } catch (error) {
      throw this.#failed(error instanceof IdentityError ? error : UNEXPECTED);
    }
  }

  #failed(error: IdentityError): IdentityError {
    const { nowMs, random, onFailed } = this.#deps;
    const now = nowMs();
    const hasToken = this.#held !== undefined && now < this.#held.expiresAtMs;
    const longest = hasToken ? MAX_PAUSE_MS : MAX_PAUSE_WITHOUT_TOKEN_MS;
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, longest);
    this.#failures = Math.min(this.#failures + 1, 16);
    this.#failure = error;
    this.#notBeforeMs = now + pauseMs * (0.5 + random() / 2);
    onFailed(error, hasToken);
    return error;
  }
}

/** An error of a library may repeat what it was given. */
const UNEXPECTED = new IdentityError('The identity provider could not be asked for a token.');

async function within<T>(limitMs: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const error = new IdentityError(`The identity provider did not answer within ${limitMs} ms.`);
    timer = setTimeout(() => reject(error), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
