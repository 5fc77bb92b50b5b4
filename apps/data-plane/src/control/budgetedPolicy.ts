import type { BucketRef } from '@weighbridge/contracts';

/** A policy of a key's chain that has a limit, as reserving from it needs it. */
export interface BudgetedPolicy {
  readonly bucket: BucketRef;
  /** As `bucketKey` makes it, once per key rather than once per request. */
  readonly bucketKey: string;
  /** A policy in `shadow` refuses nothing, and counts what it would have refused. */
  readonly enforcement: 'enforce' | 'shadow';
  /** Nothing may cost more than was reserved for it. */
  readonly isHard: boolean;
  readonly isGoverning: boolean;
  /** Unix milliseconds; undefined where the window never ends. */
  readonly windowEndMs: number | undefined;
}

/** The same in every bucket reference that names the same counter in the same window. */
export function bucketKey({ policyId, counterVersion, windowStartMs, subject }: BucketRef): string {
  return `${policyId}/${counterVersion}/${windowStartMs}/${subject}`;
}
