import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LeaseRequestSchema, LeaseResponse, RateGrant } from '@weighbridge/contracts';
import type { RateLimitedPolicy } from '../policies.ts';
import { RateCounter, type RateFigures, type Share } from './rateCounter.ts';
import { rateLimited, tooManyParallel } from './rateErrors.ts';

export interface RateBookDeps {
  /** Rejects if the control plane does not answer in time. */
  readonly call: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly producerId: string;
  readonly epoch: string;
  /** The control plane's clock as known here, in Unix milliseconds: minutes begin at the same time on all proxies. */
  readonly clockMs: () => number;
  /** The number of proxies that share the limits, this one included. */
  readonly liveProxies: () => number;
  /** Heartbeats arrive from the control plane. Otherwise each proxy uses its even share without asking. */
  readonly isLive: () => boolean;
  readonly onShadowRefusal: (policyId: string) => void;
}

/** A request's tokens in its counters until it is settled. */
export interface RateReservation {
  readonly tokens: number;
  readonly counters: readonly { readonly counter: RateCounter; readonly minute: number }[];
}

/** A counter without headroom for a request. */
interface Shortage {
  readonly policy: RateLimitedPolicy;
  readonly counter: RateCounter;
}

const NO_SHORTAGES: readonly Shortage[] = [];

/** What a book counts for one request. */
type Rates = readonly RateLimitedPolicy[];

/** The most counters in one call. */
const MAX_COUNTERS_PER_CALL = 500;
/** How long a request waits for the control plane to grant more. */
const ANSWER_WAIT_MS = 1_000;
/** Beyond these, values get no counters of their own. */
const MAX_COUNTERS = 200_000;
/** Of the values that one key names in a minute, whatever `max_counters` of a limit says: so that it takes few of all counters. */
const MAX_VALUES_OF_KEY = 10_000;
const MINUTE_MS = 60_000;
/** Looking for idle counters takes longer the more there are. */
const FORGETS_EVERY_MS = 1_000;

/**
 * Limits per minute over any number of proxies: each may use a quarter of its even share without asking, and asks for
 * slices of the rest as it needs them. A request counts in all counters of its chain or in none.
 */
export class RateBook {
  readonly #deps: RateBookDeps;
  readonly #counters = new Map<string, RateCounter>();
  readonly #wanted = new Map<RateCounter, { requests: number; tokens: number }>();
  /** By key and limit: how many values it named in the current minute. */
  #valuesOf = new Map<string, number>();
  #minute = -1;
  #forgotAtMs = Number.NEGATIVE_INFINITY;
  #calling: Promise<void> | undefined;

  constructor(deps: RateBookDeps) {
    this.#deps = deps;
  }

  /** Counts a request, at once if there is headroom. Throws or rejects with a 429 that says when to retry. */
  admit(asked: Rates, tokens: number): RateReservation | Promise<RateReservation> {
    const policies = asked.some(({ limit }) => limit?.opening)
      ? asked.map((policy) => this.#opened(policy))
      : asked;
    const shortages = this.#shortagesOf(policies, tokens);
    if (shortages.length === 0) return this.#take(policies, tokens);
    return this.#waitForGrants(policies, tokens, shortages);
  }

  /** A counter for a value, or the one that stands in for it: invented values cost little memory, and others none of theirs. */
  #opened(policy: RateLimitedPolicy): RateLimitedPolicy {
    const opening = policy.limit?.opening;
    if (!opening) return policy;
    const nowMs = this.#deps.clockMs();
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#valuesOf = new Map();
    }
    const known = this.#counters.get(policy.counterKey);
    if (known?.namedIn === minute) return policy;
    const values = `${opening.keyId}/${policy.policyId}`;
    const named = this.#valuesOf.get(values) ?? 0;
    if (named >= Math.min(opening.maxCounters, MAX_VALUES_OF_KEY)) return opening.others;
    if (!known && !this.#hasRoom(nowMs)) return opening.others;
    this.#valuesOf.set(values, named + 1);
    this.#counterOf(policy).namedIn = minute;
    return policy;
  }

  async #waitForGrants(
    policies: Rates,
    tokens: number,
    first: readonly Shortage[],
  ): Promise<RateReservation> {
    const deadline = this.#deps.clockMs() + ANSWER_WAIT_MS;
    for (let shortages = first; shortages.length > 0; shortages = this.#shortagesOf(policies, tokens)) {
      for (const { policy, counter } of shortages) {
        if (!counter.mayGetMore(policy, tokens) || !this.#deps.isLive() || this.#deps.clockMs() >= deadline) {
          throw rateLimited(policy, counter.figures(policy, this.#deps.clockMs()), tokens);
        }
        this.#want(policy, counter, tokens);
      }
      await this.#calling;
    }
    return this.#take(policies, tokens);
  }

  /** Ends a request with the tokens that it used. */
  settle({ counters, tokens }: RateReservation, usedTokens: number): void {
    for (const { counter, minute } of counters) counter.end(usedTokens - tokens, minute);
  }

  /** Ends a request that another policy governs after all: it is counted there. */
  undo({ counters, tokens }: RateReservation): void {
    for (const { counter, minute } of counters) counter.undo(tokens, minute);
  }

  /** The figures of the limit with the least left, for the response headers. */
  figures(policies: Rates): RateFigures | undefined {
    const clockMs = this.#deps.clockMs();
    const share = this.#share();
    let tightest: RateFigures | undefined;
    for (const policy of policies) {
      if (policy.requestsPerMinute === undefined && policy.tokensPerMinute === undefined) continue;
      const figures = this.#currentCounter(policy, clockMs, share).figures(policy, clockMs);
      if (!tightest || figures.shareLeft < tightest.shareLeft) tightest = figures;
    }
    return tightest;
  }

  #shortagesOf(policies: Rates, tokens: number): readonly Shortage[] {
    const clockMs = this.#deps.clockMs();
    const share = this.#share();
    let shortages = NO_SHORTAGES;
    for (const policy of policies) {
      const counter = this.#currentCounter(policy, clockMs, share);
      const isFull = counter.isAtMaxParallel(policy, share.liveProxies);
      if (!isFull && counter.hasHeadroom(policy, tokens)) continue;
      if (policy.enforcement === 'shadow') {
        if (isFull || !counter.mayGetMore(policy, tokens)) this.#deps.onShadowRefusal(policy.policyId);
        continue;
      }
      if (isFull) throw tooManyParallel(policy);
      shortages = [...shortages, { policy, counter }];
    }
    return shortages;
  }

  #take(policies: Rates, tokens: number): RateReservation {
    const counters: { counter: RateCounter; minute: number }[] = [];
    for (const policy of policies) {
      const counter = this.#counterOf(policy);
      counter.take(tokens);
      counters.push({ counter, minute: counter.minute });
      if (counter.isLow(policy, tokens) && counter.mayGetMore(policy, tokens) && this.#deps.isLive()) {
        this.#want(policy, counter, tokens);
      }
    }
    return { tokens, counters };
  }

  /** The counter, moved to the current minute and share. */
  #currentCounter(policy: RateLimitedPolicy, clockMs: number, share: Share): RateCounter {
    const counter = this.#counterOf(policy);
    counter.turnTo(clockMs);
    counter.setShare(policy, share);
    return counter;
  }

  #share(): Share {
    return { liveProxies: this.#deps.liveProxies(), isLive: this.#deps.isLive() };
  }

  #counterOf(policy: RateLimitedPolicy): RateCounter {
    const existing = this.#counters.get(policy.counterKey);
    if (existing) return existing;
    this.#hasRoom(this.#deps.clockMs());
    const counter = new RateCounter(policy);
    this.#counters.set(policy.counterKey, counter);
    return counter;
  }

  /** Whether values may have more counters. If not, drops those of past minutes without running requests. */
  #hasRoom(nowMs: number): boolean {
    if (this.#counters.size < MAX_COUNTERS) return true;
    if (nowMs - this.#forgotAtMs >= FORGETS_EVERY_MS) this.#forgetIdle(nowMs);
    return this.#counters.size < MAX_COUNTERS;
  }

  #forgetIdle(nowMs: number): void {
    this.#forgotAtMs = nowMs;
    for (const [key, counter] of this.#counters) {
      if (counter.isOver(nowMs)) this.#counters.delete(key);
    }
  }

  #want(policy: RateLimitedPolicy, counter: RateCounter, tokens: number): void {
    const slice = counter.slice(policy, tokens, this.#deps.liveProxies());
    const others = this.#wanted.get(counter);
    // A smaller request must not lower what others already wait for.
    this.#wanted.set(counter, {
      requests: Math.max(slice.requests, others?.requests ?? 0),
      tokens: Math.max(slice.tokens, others?.tokens ?? 0),
    });
    this.#calling ??= this.#callAll().finally(() => {
      this.#calling = undefined;
    });
  }

  async #callAll(): Promise<void> {
    // Batches the other requests of this turn.
    await Promise.resolve();
    while (this.#wanted.size > 0) {
      const batch = [...this.#wanted].slice(0, MAX_COUNTERS_PER_CALL);
      for (const [counter] of batch) this.#wanted.delete(counter);
      const rates = batch.map(([{ policyId, counterVersion, subject, minute }, wanted]) => ({
        policyId,
        counterVersion,
        subject,
        minute: BigInt(minute),
        requests: BigInt(wanted.requests),
        tokens: BigInt(wanted.tokens),
      }));
      const { producerId, epoch } = this.#deps;
      const grants: readonly RateGrant[] = await this.#deps
        .call({ producerId, epoch, budgets: [], rates })
        .then(
          (response) => response.rates,
          () => [],
        );
      for (const [at, [counter]] of batch.entries()) counter.grant(grants[at]);
    }
  }
}
