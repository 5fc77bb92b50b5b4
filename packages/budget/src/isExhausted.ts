import type { NanoUsd } from '@weighbridge/domain';

/** What of a bucket decides whether it is exhausted. */
interface BucketSpend {
  /** Null or undefined: unlimited. */
  readonly limitNanoUsd: NanoUsd | null | undefined;
  readonly spentNanoUsd: NanoUsd;
}

/**
 * Spend leaves no headroom for an amount, whatever leases return: not before the window ends or the limit is raised. The control
 * plane decides so for a lease call, and a proxy by the figures of its last one.
 */
export function isExhausted({ limitNanoUsd, spentNanoUsd }: BucketSpend, amount: NanoUsd): boolean {
  return limitNanoUsd !== null && limitNanoUsd !== undefined && spentNanoUsd + amount > limitNanoUsd;
}
