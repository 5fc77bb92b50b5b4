import type { RateGrant } from '@weighbridge/contracts';
import type { RateLimitedPolicy } from '../policies.ts';
import { sharedOf, unaskedOf } from './rateShares.ts';

const MINUTE_MS = 60_000;

/** A limit as the response headers show it. */
export interface RateFigures {
  readonly requestsLimit: number | undefined;
  readonly requestsLeft: number;
  readonly tokensLimit: number | undefined;
  readonly tokensLeft: number;
  /** Time until the minute ends. */
  readonly resetMs: number;
  /** When it ends, by the control plane's clock. RFC 3339. */
  readonly resetAt: string;
  /** The smaller remaining share of both limits, 0 to 1. */
  readonly shareLeft: number;
}

export interface Share {
  readonly liveProxies: number;
  /** The control plane can grant more. */
  readonly isLive: boolean;
}

/** FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). */
function phaseOf(counterKey: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < counterKey.length; at++) {
    hash = Math.imul(hash ^ counterKey.charCodeAt(at), 0x01000193);
  }
  return (hash >>> 0) % MINUTE_MS;
}

/** This proxy's part of one policy's counter for one subject in the current minute. */
export class RateCounter {
  readonly policyId: string;
  readonly counterVersion: number;
  readonly subject: string;
  /** Each counter's minutes have their own phase, so that not all counters reset at once. */
  readonly #phaseMs: number;
  minute = -1;
  /** The minute in which a key last named its value, for the number of those; without the phase. */
  namedIn = -1;
  #running = 0;
  #usedRequests = 0;
  #usedTokens = 0;
  /** What this proxy may use without asking. */
  #ownRequests = 0;
  #ownTokens = 0;
  #share: Share = { liveProxies: 1, isLive: false };
  #grantedRequests = 0;
  #grantedTokens = 0;
  /** What the control plane can still grant to any proxy; undefined before its first response in this minute. */
  #sharedRequests: number | undefined;
  #sharedTokens: number | undefined;
  #resetAtMs = Number.NaN;
  #resetText = '';

  constructor({ policyId, counterVersion, subject, counterKey }: RateLimitedPolicy) {
    this.policyId = policyId;
    this.counterVersion = counterVersion;
    this.subject = subject;
    this.#phaseMs = phaseOf(counterKey);
  }

  turnTo(clockMs: number): void {
    const minute = this.#minuteAt(clockMs);
    if (minute === this.minute) return;
    const isNext = minute === this.minute + 1;
    this.minute = minute;
    this.#usedRequests = 0;
    // Tokens used beyond the estimate are a debt of the next minute.
    this.#usedTokens = isNext ? Math.max(0, -this.#tokensLeft) : 0;
    this.#grantedRequests = 0;
    this.#grantedTokens = 0;
    this.#sharedRequests = undefined;
    this.#sharedTokens = undefined;
  }

  /** A quarter of the even share; all of it while the control plane can't be asked. */
  setShare({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, share: Share): void {
    this.#share = share;
    this.#ownRequests = ownOf(requestsPerMinute ?? 0, this.#grantedRequests, share);
    this.#ownTokens = ownOf(tokensPerMinute ?? 0, this.#grantedTokens, share);
  }

  /** A request without tokens passes even if tokens are in debt. */
  hasHeadroom({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, tokens: number): boolean {
    return (
      (requestsPerMinute === undefined || this.#requestsLeft >= 1) &&
      (tokensPerMinute === undefined || tokens === 0 || this.#tokensLeft >= tokens)
    );
  }

  isAtMaxParallel({ maxParallel }: RateLimitedPolicy, liveProxies: number): boolean {
    return maxParallel !== undefined && this.#running >= Math.max(1, Math.floor(maxParallel / liveProxies));
  }

  /** False if the control plane is known to have nothing more to grant. */
  mayGetMore({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, tokens: number): boolean {
    const lacksRequests = requestsPerMinute !== undefined && this.#requestsLeft < 1;
    const lacksTokens = tokensPerMinute !== undefined && tokens > 0 && this.#tokensLeft < tokens;
    if (lacksRequests && this.#sharedRequests !== undefined && this.#sharedRequests < 1) return false;
    if (lacksTokens && this.#sharedTokens !== undefined) {
      return this.#tokensLeft + this.#sharedTokens >= tokens;
    }
    return true;
  }

  /** Less than a quarter is left of a limit that a request with these tokens uses. */
  isLow({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, tokens: number): boolean {
    const low = (left: number, own: number, granted: number) => left < (own + granted) / 4;
    return (
      (requestsPerMinute !== undefined &&
        low(this.#requestsLeft, this.#ownRequests, this.#grantedRequests) &&
        this.#sharedRequests !== 0) ||
      (tokensPerMinute !== undefined &&
        tokens > 0 &&
        low(this.#tokensLeft, this.#ownTokens, this.#grantedTokens) &&
        this.#sharedTokens !== 0)
    );
  }

  /** What to ask for: an eighth of the even share, at least what is needed; no tokens for a request without any. */
  slice({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, tokens: number, liveProxies: number) {
    const part = (limit: number, least: number) => Math.max(least, Math.ceil(limit / (8 * liveProxies)));
    return {
      requests: requestsPerMinute === undefined ? 0 : part(requestsPerMinute, 1),
      tokens:
        tokensPerMinute === undefined || tokens === 0
          ? 0
          : part(tokensPerMinute, Math.max(0, tokens - this.#tokensLeft)),
    };
  }

  take(tokens: number): void {
    this.#running++;
    this.#usedRequests++;
    this.#usedTokens += tokens;
  }

  /** Ends a request that was admitted in `minute` and used `moreTokens` beyond its estimate. */
  end(moreTokens: number, minute: number): void {
    this.#running--;
    // Tokens that an earlier minute did not use expired with it.
    if (moreTokens > 0 || minute === this.minute) {
      this.#usedTokens = Math.max(0, this.#usedTokens + moreTokens);
    }
  }

  /** Takes back a request that was admitted in `minute`, as if it had not come. */
  undo(tokens: number, minute: number): void {
    this.end(-tokens, minute);
    if (minute === this.minute) this.#usedRequests--;
  }

  grant(grant: RateGrant | undefined): void {
    if (!grant || Number(grant.minute) !== this.minute) return;
    this.#grantedRequests += Number(grant.requests);
    this.#grantedTokens += Number(grant.tokens);
    this.#sharedRequests = Number(grant.requestsLeft);
    this.#sharedTokens = Number(grant.tokensLeft);
  }

  isOver(clockMs: number): boolean {
    return this.#running === 0 && this.minute < this.#minuteAt(clockMs);
  }

  figures({ requestsPerMinute, tokensPerMinute }: RateLimitedPolicy, clockMs: number): RateFigures {
    const share = this.#share;
    const requestsLeft = leftOf(requestsPerMinute, this.#requestsLeft, this.#sharedRequests, share);
    const tokensLeft = leftOf(tokensPerMinute, this.#tokensLeft, this.#sharedTokens, share);
    const resetMs = MINUTE_MS - ((clockMs + this.#phaseMs) % MINUTE_MS);
    return {
      requestsLimit: requestsPerMinute,
      requestsLeft,
      tokensLimit: tokensPerMinute,
      tokensLeft,
      resetMs,
      resetAt: this.#resetAt(clockMs + resetMs),
      shareLeft: Math.min(
        requestsPerMinute ? requestsLeft / requestsPerMinute : 1,
        tokensPerMinute ? tokensLeft / tokensPerMinute : 1,
      ),
    };
  }

  /** Written once a minute: that takes longer than all other figures. */
  #resetAt(atMs: number): string {
    if (atMs !== this.#resetAtMs) {
      this.#resetAtMs = atMs;
      this.#resetText = new Date(atMs).toISOString();
    }
    return this.#resetText;
  }

  #minuteAt(clockMs: number): number {
    return Math.floor((clockMs + this.#phaseMs) / MINUTE_MS);
  }

  get #requestsLeft(): number {
    return this.#ownRequests + this.#grantedRequests - this.#usedRequests;
  }

  get #tokensLeft(): number {
    return this.#ownTokens + this.#grantedTokens - this.#usedTokens;
  }
}

/** What this proxy may use of a limit before any grant. */
function ownOf(limit: number, granted: number, { liveProxies, isLive }: Share): number {
  return isLive ? unaskedOf(limit, liveProxies) : Math.max(0, Math.floor(limit / liveProxies) - granted);
}

/** What is left of a limit: here, and with the control plane if it can be asked. */
function leftOf(
  limit: number | undefined,
  mine: number,
  shared: number | undefined,
  { liveProxies, isLive }: Share,
): number {
  if (limit === undefined) return 0;
  if (!isLive) return clamp(mine, limit);
  return clamp(mine + (shared ?? sharedOf(limit, liveProxies)), limit);
}

function clamp(value: number, most: number): number {
  return Math.min(most, Math.max(0, value));
}
