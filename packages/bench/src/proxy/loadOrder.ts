import type { Quantiles } from '../quantiles.ts';
import type { Workload } from './workload.ts';

/** What the load generator is to do: one contender, one workload. */
export interface LoadOrder {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bearer tokens that the requests take in turns. */
  readonly tokens: readonly string[];
  readonly workload: Workload;
  /** `mark` for a contender that writes answers anew: what counts must stand in them. */
  readonly expects: 'same bytes' | 'mark';
  readonly connections: number;
  readonly ms: number;
}

export interface LoadResult {
  /** All that were answered, with those that came before the clock ran. */
  readonly requests: number;
  readonly measured: number;
  readonly seconds: number;
  /** To the end of the answer: from when it was sent, or at a rate from when it was due. */
  readonly latencyMs: Quantiles;
  /** Likewise, to the first byte of the body. */
  readonly firstByteMs: Quantiles;
  /** At a rate: how long after its time a request went out. */
  readonly lateMs: Quantiles;
}
