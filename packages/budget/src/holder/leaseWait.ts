import type { BudgetedPolicy } from '../policies.ts';
import type { Lease } from './lease.ts';
import type { LeaseCalls } from './leaseCalls.ts';
import { type LeaseEntry, waitForChange } from './leaseEntry.ts';

/** How long a request waits for the control plane to answer at all: for a call that had begun before it, and for its own. */
export const ANSWER_WAIT_MS = 2_500;
/** The same while heartbeats arrive: a call may have failed because one control plane stopped, or Postgres was busy. */
const LIVE_ANSWER_WAIT_MS = 5_000;
/** How long a request waits for budget that others hold. */
const CONTENTION_WAIT_MS = 1_000;
/** Interval of calls for a bucket that others hold, or after a call that failed. */
const RETRY_MS = 100;
/** The most requests that wait for one bucket. */
const MAX_WAITING = 1_000;

/** A bucket whose lease is too small for a request. */
export interface Shortage {
  readonly policy: BudgetedPolicy;
  readonly entry: LeaseEntry;
  /** What must be available in the lease. */
  readonly needed: bigint;
}

/** One request's wait for leases to grow. All times are monotonic, in milliseconds. */
export class LeaseWait {
  readonly beganAtMs: number;
  readonly #calls: Pick<LeaseCalls, 'ask'>;
  readonly #freshSinceMs: number;

  /** Figures from before `freshSinceMs` are asked for again at once. */
  constructor(calls: Pick<LeaseCalls, 'ask'>, beganAtMs: number, freshSinceMs: number) {
    this.#calls = calls;
    this.beganAtMs = beganAtMs;
    this.#freshSinceMs = freshSinceMs;
  }

  /** A call that was sent during the wait failed. An earlier one may have been about to time out when this began. */
  hasFailed({ failedCallAtMs }: LeaseEntry): boolean {
    return failedCallAtMs >= this.beganAtMs;
  }

  /** The control plane has answered a call for the lease that was sent during the wait. */
  isAnswered({ lease: { figures } }: LeaseEntry): boolean {
    return figures !== undefined && figures.askedAtMs >= this.beganAtMs;
  }

  isAnswerOverdue(nowMs: number, isLive: boolean): boolean {
    return nowMs - this.beganAtMs >= (isLive ? LIVE_ANSWER_WAIT_MS : ANSWER_WAIT_MS);
  }

  isContentionOver(nowMs: number): boolean {
    return nowMs - this.beganAtMs >= CONTENTION_WAIT_MS;
  }

  /** Asks for what is missing, if that is due, and waits until one of the leases may have changed. */
  async forMore(shortages: readonly Shortage[], nowMs: number): Promise<void> {
    for (const { entry, needed } of shortages) {
      if (this.#isCallDue(entry, nowMs)) this.#askFor(entry.lease, needed);
    }
    await waitForChange(
      shortages.map(({ entry }) => entry),
      RETRY_MS,
    );
  }

  #isCallDue({ lease: { figures }, failedCallAtMs }: LeaseEntry, nowMs: number): boolean {
    if (nowMs - failedCallAtMs < RETRY_MS) return false;
    return !figures || nowMs - figures.askedAtMs >= RETRY_MS || figures.askedAtMs < this.#freshSinceMs;
  }

  /**
   * The call says what is missing, the refusal what was needed: so the control plane may say `contended`, and reclaim, where
   * spend leaves no room for the whole. A debt is covered first. Nothing is missing if only the control plane's contact has lapsed.
   */
  #askFor(lease: Lease, needed: bigint): void {
    const missing = needed - lease.available;
    this.#calls.ask(lease, missing > 0n ? missing : 0n);
  }
}

export function isCrowded(shortages: readonly Shortage[]): boolean {
  return shortages.some(({ entry }) => entry.waiting.length >= MAX_WAITING);
}
