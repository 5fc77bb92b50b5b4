import type { MessageInitShape } from '@bufbuild/protobuf';
import type { BudgetLease, LeaseRequestSchema, LeaseResponse } from '@weighbridge/contracts';
import type { Lease } from './lease.ts';

export interface LeaseCallsDeps {
  /** Rejects when the control plane can't be reached in time. */
  readonly call: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly producerId: string;
  readonly epoch: string;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
  /** Above those of all calls that this epoch ever made. */
  readonly firstSeq: bigint;
  /** Told of each lease that a call has answered, or failed to. */
  readonly onAnswer: (lease: Lease, failure: unknown) => void;
}

/** How many buckets one call speaks of. */
const MAX_BUCKETS_PER_CALL = 500;
/** How many calls are under way at once, so that one slow bucket does not hold up the others. */
const MAX_CALLS = 4;

/**
 * The calls for leases: one at a time for each bucket, with all buckets that need one at that moment in the same call.
 * What is asked for a bucket while its call is under way goes with its next.
 */
export class LeaseCalls {
  readonly #deps: LeaseCallsDeps;
  /** The least that helps, by lease. */
  readonly #wanted = new Map<Lease, bigint>();
  readonly #underWay = new Set<Lease>();
  #seq: bigint;
  #calls = 0;
  #isPumping = false;
  #whenIdle: (() => void)[] = [];

  constructor(deps: LeaseCallsDeps) {
    this.#deps = deps;
    this.#seq = deps.firstSeq;
  }

  /** Asks for at least `minimum`, or, where that is 0, tells what was given back. */
  ask(lease: Lease, minimum: bigint): void {
    const wanted = this.#wanted.get(lease) ?? 0n;
    this.#wanted.set(lease, wanted > minimum ? wanted : minimum);
    if (this.#isPumping) return;
    this.#isPumping = true;
    // What else is asked for in this turn goes along.
    queueMicrotask(() => this.#pump());
  }

  /** Resolves when nothing is under way any more. */
  async idle(): Promise<void> {
    if (this.#wanted.size === 0 && this.#calls === 0) return;
    await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #pump(): void {
    this.#isPumping = false;
    while (this.#calls < MAX_CALLS) {
      const batch: [Lease, bigint][] = [];
      for (const [lease, minimum] of this.#wanted) {
        if (batch.length === MAX_BUCKETS_PER_CALL) break;
        if (!this.#underWay.has(lease)) batch.push([lease, minimum]);
      }
      if (batch.length === 0) break;
      for (const [lease] of batch) {
        this.#wanted.delete(lease);
        this.#underWay.add(lease);
      }
      this.#calls++;
      void this.#callOnce(batch).finally(() => {
        this.#calls--;
        this.#pump();
      });
    }
    if (this.#wanted.size > 0 || this.#calls > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #callOnce(batch: readonly (readonly [Lease, bigint])[]): Promise<void> {
    const { call, producerId, epoch, nowMs, onAnswer } = this.#deps;
    const askedAtMs = nowMs();
    const told = batch.map(([lease]) => lease.returned);
    const budgets = batch.map(([lease, minimum]) => {
      const burn = lease.burnPerSecond;
      return {
        bucket: lease.bucket,
        seq: ++this.#seq,
        returnedNanoUsd: lease.returned,
        minimumNanoUsd: minimum,
        ...(burn !== undefined && { burnNanoUsdPerSecond: burn }),
      };
    });
    let failure: unknown;
    let answers: readonly BudgetLease[] = [];
    try {
      ({ budgets: answers } = await call({ producerId, epoch, budgets, rates: [] }));
    } catch (error) {
      failure = error ?? new Error('rejected without a reason');
    }
    for (const [at, [lease]] of batch.entries()) {
      const answer = answers[at];
      this.#underWay.delete(lease);
      if (answer) {
        lease.returnHeard(told[at] ?? 0n);
        // An earlier process of this epoch, whose clock was ahead, has counted further.
        if (answer.seq > this.#seq) this.#seq = answer.seq;
        takeIn(lease, answer, askedAtMs);
      } else lease.callFailed();
      onAnswer(lease, answer ? undefined : (failure ?? new Error('the answer lacks a bucket')));
    }
  }
}

function takeIn(lease: Lease, answer: BudgetLease, askedAtMs: number): void {
  lease.grant(answer.grantedNanoUsd);
  lease.figures = {
    limitNanoUsd: answer.limitNanoUsd,
    spentNanoUsd: answer.spentNanoUsd,
    leasedNanoUsd: answer.leasedNanoUsd,
    outcome: answer.outcome,
    askedAtMs,
  };
}
