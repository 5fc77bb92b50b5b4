import type { MessageInitShape } from '@bufbuild/protobuf';
import type { LeaseRequestSchema, LeaseResponse, RateGrant } from '@weighbridge/contracts';
import type { RateLimitedPolicy } from '../control/keyPolicies.ts';
import { minuteOf, RateCounter, type RateFigures } from './rateCounter.ts';
import { rateLimited, tooManyParallel } from './refusals.ts';

export interface RateBookDeps {
  /** Rejects when the control plane can't be reached in time. */
  readonly call: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly producerId: string;
  readonly epoch: string;
  /** The control plane's clock as this proxy knows it, in Unix milliseconds: all proxies cut minutes alike. */
  readonly clockMs: () => number;
  /** How many proxies share the limits, this one among them. */
  readonly liveProxies: () => number;
  /** The control plane is heard of: else each proxy takes its even share, and nobody is asked. */
  readonly isLive: () => boolean;
  readonly onShadowRefusal: (policyId: string) => void;
}

/** What a request counts for until it is settled. */
export interface RateReservation {
  readonly tokens: number;
  readonly counters: readonly { readonly counter: RateCounter; readonly minute: number }[];
}

/** A counter that has no room for a request now. */
interface Short {
  readonly policy: RateLimitedPolicy;
  readonly counter: RateCounter;
}

const NONE_SHORT: readonly Short[] = [];

/** How many counters one call speaks of. */
const MAX_COUNTERS_PER_CALL = 500;
/** How long a request waits for the control plane to say whether there is more. */
const ANSWER_WAIT_MS = 1_000;
const MAX_COUNTERS = 200_000;

/**
 * Limits by the minute over any number of proxies: each has a quarter of its even share unasked, and asks for slices of
 * the rest as it needs them. A request counts in all counters of its chain or in none.
 */
export class RateBook {
  readonly #deps: RateBookDeps;
  readonly #counters = new Map<string, RateCounter>();
  readonly #wanted = new Map<RateCounter, { requests: number; tokens: number }>();
  #calling: Promise<void> | undefined;

  constructor(deps: RateBookDeps) {
    this.#deps = deps;
  }

  clockMs(): number {
    return this.#deps.clockMs();
  }

  /** Counts a request in, at once where there is room. Throws, or rejects with, a 429 that says when to come again. */
  admit(policies: readonly RateLimitedPolicy[], tokens: number): RateReservation | Promise<RateReservation> {
    const short = this.#shortOf(policies, tokens);
    return short.length === 0 ? this.#take(policies, tokens) : this.#waitForRoom(policies, tokens, short);
  }

  async #waitForRoom(
    policies: readonly RateLimitedPolicy[],
    tokens: number,
    firstShort: readonly Short[],
  ): Promise<RateReservation> {
    const deadline = this.#deps.clockMs() + ANSWER_WAIT_MS;
    for (let short = firstShort; short.length > 0; short = this.#shortOf(policies, tokens)) {
      for (const { policy, counter } of short) {
        if (!counter.mayGetMore(policy, tokens) || !this.#deps.isLive() || this.#deps.clockMs() >= deadline) {
          throw rateLimited(policy, counter.figures(policy, this.#deps.clockMs()), tokens);
        }
        this.#want(policy, counter, tokens);
      }
      await this.#calling;
    }
    return this.#take(policies, tokens);
  }

  /** Ends a request, with what it really used. */
  settle({ counters, tokens }: RateReservation, usedTokens: number): void {
    for (const { counter, minute } of counters) counter.end(usedTokens - tokens, minute);
  }

  /** What to tell the caller of the limits: the one of which least is left. */
  figures(policies: readonly RateLimitedPolicy[]): RateFigures | undefined {
    let tightest: RateFigures | undefined;
    for (const policy of policies) {
      if (policy.requestsPerMinute === undefined && policy.tokensPerMinute === undefined) continue;
      const figures = this.#currentCounter(policy).figures(policy, this.#deps.clockMs());
      if (!tightest || figures.shareLeft < tightest.shareLeft) tightest = figures;
    }
    return tightest;
  }

  #shortOf(policies: readonly RateLimitedPolicy[], tokens: number): readonly Short[] {
    const liveProxies = this.#deps.liveProxies();
    let short = NONE_SHORT;
    for (const policy of policies) {
      const counter = this.#currentCounter(policy);
      const isFull = counter.hasNoParallelRoom(policy, liveProxies);
      if (!isFull && counter.hasRoom(policy, tokens)) continue;
      if (policy.enforcement === 'shadow') {
        if (isFull || !counter.mayGetMore(policy, tokens)) this.#deps.onShadowRefusal(policy.policyId);
        continue;
      }
      if (isFull) throw tooManyParallel(policy);
      short = [...short, { policy, counter }];
    }
    return short;
  }

  #take(policies: readonly RateLimitedPolicy[], tokens: number): RateReservation {
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

  /** In the minute and with the share that hold now. */
  #currentCounter(policy: RateLimitedPolicy): RateCounter {
    const counter = this.#counterOf(policy);
    counter.turnTo(minuteOf(policy.counterKey, this.#deps.clockMs()));
    counter.setShare(policy, { liveProxies: this.#deps.liveProxies(), isLive: this.#deps.isLive() });
    return counter;
  }

  #counterOf(policy: RateLimitedPolicy): RateCounter {
    const known = this.#counters.get(policy.counterKey);
    if (known) return known;
    if (this.#counters.size >= MAX_COUNTERS) this.#forgetIdle();
    const counter = new RateCounter(policy);
    this.#counters.set(policy.counterKey, counter);
    return counter;
  }

  /** Those of minutes that are over and of which nothing is under way say nothing any more. */
  #forgetIdle(): void {
    const nowMs = this.#deps.clockMs();
    for (const [key, counter] of this.#counters) {
      if (counter.isOver(minuteOf(key, nowMs))) this.#counters.delete(key);
    }
  }

  #want(policy: RateLimitedPolicy, counter: RateCounter, tokens: number): void {
    const slice = counter.slice(policy, tokens, this.#deps.liveProxies());
    const others = this.#wanted.get(counter);
    // One that needs less must not ask for less on behalf of those that wait already.
    this.#wanted.set(counter, {
      requests: Math.max(slice.requests, others?.requests ?? 0),
      tokens: Math.max(slice.tokens, others?.tokens ?? 0),
    });
    this.#calling ??= this.#callAll().finally(() => {
      this.#calling = undefined;
    });
  }

  async #callAll(): Promise<void> {
    // What else is asked for in this turn goes along.
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
      const answers: readonly RateGrant[] = await this.#deps
        .call({ producerId, epoch, budgets: [], rates })
        .then(
          (answer) => answer.rates,
          () => [],
        );
      for (const [at, [counter]] of batch.entries()) counter.grant(answers[at]);
    }
  }
}
