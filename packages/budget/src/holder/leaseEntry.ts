import type { Lease } from './lease.ts';

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
