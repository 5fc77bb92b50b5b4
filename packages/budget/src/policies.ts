import type { BucketRef, CountUnit } from './bucketRef.ts';

/** A policy in a key's chain that has a spending limit, or an amount of a further limit, in the form that reserving from it needs. */
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
  /** The length of windows that open on first use: `bucket` has none then. */
  readonly firstUseMs?: number | undefined;
  /** The further limit of the policy that this is; undefined: its main limit. */
  readonly limit?: FurtherLimit | undefined;
}

/** A further limit of a policy, and whose counter of it a request names. */
export interface NamedLimit {
  readonly id: string;
  readonly name: string;
  /** Who shares the counter: `key`, `principal`, `policy`, or an attribution such as `user`. */
  readonly scope: string;
  /** The patterns of the models that it counts; empty: all. */
  readonly models: readonly string[];
  /** The caller's value; undefined if the scope is no attribution, or the counter is of no value. */
  readonly value: string | undefined;
}

/** An amount of a further limit, and the counter of it that a request names. */
export interface FurtherLimit extends NamedLimit {
  /** What its amount is of; undefined: money. A limit of several amounts is several of these. */
  readonly unit: CountUnit | undefined;
  /** Of a counter for a value: the key that names it, and the counter that stands in for it if that key may open no more. */
  readonly opening?: { readonly keyId: string; readonly others: BudgetedPolicy } | undefined;
}

/** A policy in a key's chain, or a further limit of one, that limits requests per minute, tokens per minute or parallel requests. */
export interface RateLimitedPolicy {
  /** Of a further limit, its `furtherLimitId`. */
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
  /** The further limit of the policy that this is; undefined: the policy itself. */
  readonly limit?: RateLimit | undefined;
}

/** The rates of a further limit, and the counter of them that an attempt names. */
interface RateLimit extends NamedLimit {
  /**
   * Of a counter for a value: the key that names it, how many values of one key have counters in a minute, and the counter that stands in
   * for those of further ones.
   */
  readonly opening?:
    | { readonly keyId: string; readonly maxCounters: number; readonly others: RateLimitedPolicy }
    | undefined;
}
