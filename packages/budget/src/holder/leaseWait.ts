import type { BudgetedPolicy } from '../policies.ts';
import type { Lease } from './lease.ts';
import type { LeaseCalls } from './leaseCalls.ts';

/** A lease and the requests that wait for it. */
export interface LeaseEntry {
  readonly lease: Lease;
  readonly waiting: (() => void)[];
  readonly windowEndMs: number | undefined;
  /** When a request last asked for it, monotonic, in milliseconds. */
  usedAtMs: number;
  refilledAtMs: number;
  /** When the last failed call was sent, and its error. */
  failedCallAtMs: number;
  failure: unknown;
}

export function newEntry(lease: Lease, windowEndMs: number | undefined, nowMs: number): LeaseEntry {
  const never = Number.NEGATIVE_INFINITY;
  return {
    lease,
    waiting: [],
    windowEndMs,
    usedAtMs: nowMs,
    refilledAtMs: never,
    failedCallAtMs: never,
    failure: undefined,
  };
}

/** Resolves when one of the leases may have changed, at the latest after `timeoutMs`. */
export function waitForChange(entries: readonly LeaseEntry[], timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      for (const { waiting } of entries) {
        const at = waiting.indexOf(wake);
        if (at >= 0) waiting.splice(at, 1);
      }
      resolve();
    };
    const timer = setTimeout(wake, timeoutMs);
    for (const { waiting } of entries) waiting.push(wake);
  });
}

export function wakeOne({ waiting }: LeaseEntry): void {
  waiting[0]?.();
}

export function wakeAll({ waiting }: LeaseEntry): void {
  for (const wake of [...waiting]) wake();
}

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

  /** A debt is covered first. Nothing is missing if only the control plane's contact has lapsed. */
  #askFor(lease: Lease, needed: bigint): void {
    const missing = needed - lease.available;
    this.#calls.ask(lease, missing > 0n ? missing : 0n);
  }
}

export function isCrowded(shortages: readonly Shortage[]): boolean {
  return shortages.some(({ entry }) => entry.waiting.length >= MAX_WAITING);
}
