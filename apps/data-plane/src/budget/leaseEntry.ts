import type { Lease } from './lease.ts';

/** A lease, and who waits for it. */
export interface Entry {
  readonly lease: Lease;
  readonly waiting: (() => void)[];
  readonly windowEndMs: number | undefined;
  refilledAtMs: number;
  failedAtMs: number;
  failure: unknown;
}

export function newEntry(lease: Lease, windowEndMs: number | undefined): Entry {
  const never = Number.NEGATIVE_INFINITY;
  return {
    lease,
    waiting: [],
    windowEndMs,
    refilledAtMs: never,
    failedAtMs: never,
    failure: undefined,
  };
}

/** Resolves when one of them may have room, and after `timeoutMs` at the latest. */
export function waitForChange(entries: readonly Entry[], timeoutMs: number): Promise<void> {
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

export function wakeOne({ waiting }: Entry): void {
  waiting[0]?.();
}

export function wakeAll({ waiting }: Entry): void {
  for (const wake of [...waiting]) wake();
}
