import type { REFUSING_LIMITS } from '@weighbridge/budget';
import type { RefusedRequests } from '@weighbridge/database';
import type { Selectable } from 'kysely';

/** The counter that had no headroom for a request, as it is stored. Amounts are decimal integers. */
export interface RefusingCounter {
  readonly policy_id: string;
  readonly subject: string;
  readonly limits: (typeof REFUSING_LIMITS)[number];
  /** Nano-USD of a budget; else requests or tokens. */
  readonly limit: string | null;
  readonly spent: string | null;
  readonly wanted: string | null;
  readonly window_start: string | null;
  readonly resets_at: string | null;
}

/** A refused request, or a count of those of one key and minute. */
export interface RefusalRow
  extends Omit<Selectable<RefusedRequests>, 'counter' | 'attribution' | 'counts' | 'team_id'> {
  /** Null or absent: its principal was in none. */
  readonly team_id?: string | null;
  readonly counter: RefusingCounter | null;
  /** JSON. */
  readonly attribution: string;
  readonly counts: Readonly<Record<string, number>> | null;
}

export interface RefusalBatch {
  readonly producerId: string;
  readonly epoch: string;
  /** Counts a proxy's batches from 1. It sends the next one when this one is recorded. */
  readonly n: bigint;
  readonly rows: readonly RefusalRow[];
}

export const MINUTE_MS = 60_000;
/** Of each key in each minute, over all proxies. What is beyond is counted in one row. */
export const ROWS_PER_KEY_AND_MINUTE = 100;

export function minuteOf(at: Date): number {
  return Math.floor(at.getTime() / MINUTE_MS) * MINUTE_MS;
}
