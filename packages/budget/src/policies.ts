import type { BucketRef } from './bucketRef.ts';

/** A policy in a key's chain that has a spending limit, in the form that reserving from it needs. */
export interface BudgetedPolicy {
  readonly bucket: BucketRef;
  /** From `bucketKey`, computed once per key rather than once per request. */
  readonly bucketKey: string;
  /** A `shadow` policy never refuses; it counts what it would have refused. */
  readonly enforcement: 'enforce' | 'shadow';
  /** No attempt may cost more than its reservation. */
  readonly isHard: boolean;
  readonly isGoverning: boolean;
  /** Unix milliseconds; undefined if the window never ends. */
  readonly windowEndMs: number | undefined;
}

/** A policy in a key's chain that limits requests per minute, tokens per minute or parallel requests. */
export interface RateLimitedPolicy {
  readonly policyId: string;
  readonly counterVersion: number;
  readonly subject: string;
  /** Identifies the counter by policy, version and subject; computed once per key rather than once per request. */
  readonly counterKey: string;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  readonly maxParallel: number | undefined;
  /** A `shadow` policy never refuses; it counts what it would have refused. */
  readonly enforcement: 'enforce' | 'shadow';
}
