import type { MessageInitShape } from '@bufbuild/protobuf';
import type { BudgetLease, LeaseRequestSchema, LeaseResponse } from '@weighbridge/contracts';
import { callMessage, figuresOf, MAX_BUCKETS_PER_CALL } from '../leaseWire.ts';
import type { Lease } from './lease.ts';

export interface LeaseCallsDeps {
  /** Rejects if the control plane does not answer in time. */
  readonly call: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  readonly producerId: string;
  readonly epoch: string;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
  /** Above the sequence numbers of all earlier calls of this epoch. */
  readonly firstSeq: bigint;
  /** Called for each lease of a finished call, with when that was sent; `failure` is undefined if it was answered. */
  readonly onAnswer: (lease: Lease, askedAtMs: number, failure: unknown) => void;
}

/** Parallel calls, so that one slow bucket does not block the others. */
const MAX_CALLS = 4;

/**
 * The lease calls: one at a time for each bucket, batched over all buckets that need one. Requests for a bucket whose call
 * is running go into its next.
 */
export class LeaseCalls {
  readonly #deps: LeaseCallsDeps;
  /** The minimum grant wanted, by lease. */
  readonly #wanted = new Map<Lease, bigint>();
  readonly #running = new Set<Lease>();
  #seq: bigint;
  #calls = 0;
  #isPumping = false;
  #whenIdle: (() => void)[] = [];

  constructor(deps: LeaseCallsDeps) {
    this.#deps = deps;
    this.#seq = deps.firstSeq;
  }

  /** Asks for at least `minimum`; with 0, only reports what was returned. */
  ask(lease: Lease, minimum: bigint): void {
    const wanted = this.#wanted.get(lease) ?? 0n;
    this.#wanted.set(lease, wanted > minimum ? wanted : minimum);
    if (this.#isPumping) return;
    this.#isPumping = true;
    // Batches the other requests of this turn.
    queueMicrotask(() => this.#pump());
  }

  /** A call for the lease is running or wanted. */
  has(lease: Lease): boolean {
    return this.#running.has(lease) || this.#wanted.has(lease);
  }

  /** Resolves when no call is running or wanted. */
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
        if (!this.#running.has(lease)) batch.push([lease, minimum]);
      }
      if (batch.length === 0) break;
      for (const [lease] of batch) {
        this.#wanted.delete(lease);
        this.#running.add(lease);
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
    const returned = batch.map(([lease]) => lease.returned);
    const budgets = batch.map(([lease, minimum]) => callMessage(lease, ++this.#seq, minimum));
    let failure: unknown;
    let results: readonly BudgetLease[] = [];
    try {
      ({ budgets: results } = await call({ producerId, epoch, budgets, rates: [] }));
    } catch (error) {
      failure = error ?? new Error('rejected without a reason');
    }
    for (const [at, [lease]] of batch.entries()) {
      const result = results[at];
      this.#running.delete(lease);
      if (result) {
        lease.callAnswered(returned[at] ?? 0n);
        // An earlier process of this epoch, with a clock ahead, used higher numbers.
        if (result.seq > this.#seq) this.#seq = result.seq;
        apply(lease, result, { askedAtMs, keyId: budgets[at]?.keyId });
      } else lease.callFailed();
      onAnswer(
        lease,
        askedAtMs,
        result ? undefined : (failure ?? new Error('the lease response lacks a bucket')),
      );
    }
  }
}

function apply(
  lease: Lease,
  result: BudgetLease,
  { askedAtMs, keyId }: { readonly askedAtMs: number; readonly keyId: string | undefined },
): void {
  lease.grant(result.grantedNanoUsd);
  lease.standing = result.standingNanoUsd;
  lease.answered(figuresOf(result, askedAtMs), keyId);
}
