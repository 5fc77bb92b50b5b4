import type { Quantiles } from '../shared/quantiles.ts';
import type { Workload } from './workload.ts';

/** An order for the load generator: one workload for one contender. */
export interface LoadOrder {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bearer tokens that the requests take in turns. */
  readonly tokens: readonly string[];
  readonly workload: Workload;
  /** The model in the request. Default: that of Weighbridge's mock vendor. */
  readonly model?: string;
  /** `mark` for a contender that rewrites responses: they must contain the reported usage. */
  readonly expects: 'same bytes' | 'mark';
  readonly connections: number;
  readonly ms: number;
  /** In a closed loop: ends after as many requests even if `ms` have not passed. */
  readonly maxRequests?: number;
}

export interface LoadResult {
  /** All requests that were answered, including those before the clock started. */
  readonly requests: number;
  readonly measured: number;
  readonly seconds: number;
  /** To the end of the response, from when the request was sent or, at a rate, was due. */
  readonly latencyMs: Quantiles;
  /** The same, to the first byte of the body. */
  readonly firstByteMs: Quantiles;
  /** At a rate: how much later than due a request was sent. */
  readonly lateMs: Quantiles;
}
