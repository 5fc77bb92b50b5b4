import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { type LedgerFilter, matches } from './ledgerFilter.ts';

/** How the newest requests went. */
export interface RecentAttempts {
  /** Answers that were looked at, those of the response cache included. */
  readonly answers: number;
  /** Of them, those that the response cache had. */
  readonly cacheHits: number;
  /** The admission of the oldest of them; null: there is none. */
  readonly since: Date | null;
  /** Until the first byte of a stream, in microseconds, of the cache's answers not; null: no stream succeeded. */
  readonly firstByteUs: Percentiles | null;
  /** The whole attempt, in microseconds; null: none succeeded. */
  readonly durationUs: Percentiles | null;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

/** So many are looked at, and so many are searched for those of a caller's teams. */
const MAX_ANSWERS = 10_000;
const MAX_SEARCHED = 50_000;

/** Of the newest successful attempts that match. What it costs does not grow with the ledger. */
export async function readRecentAttempts(db: Database, filter: LedgerFilter): Promise<RecentAttempts> {
  const { within, ...range } = filter;
  const columns = sql`admitted_at, event_id, kind, outcome, cache_hit, streamed, first_byte_us, duration_us`;
  const searched = sql`
    SELECT ${columns}, principal_id, team_id FROM usage_events
    WHERE ${sql.join(matches('usage_events', range), sql` AND `)}
    ORDER BY admitted_at DESC, event_id DESC LIMIT ${within ? MAX_SEARCHED : MAX_ANSWERS}`;
  const isWithin = within
    ? sql`principal_id = ${within.principalId} OR team_id = ANY (${[...within.teamIds]}::text[])`
    : sql`true`;
  const { rows } = await sql<{
    answers: number;
    hits: number;
    since: Date | null;
    first_byte: [number, number] | null;
    duration: [number, number] | null;
  }>`
    SELECT count(*)::integer AS answers, count(*) FILTER (WHERE cache_hit)::integer AS hits, min(admitted_at) AS since,
      percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY first_byte_us)
        FILTER (WHERE streamed AND NOT cache_hit) AS first_byte,
      percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY duration_us) FILTER (WHERE NOT cache_hit) AS duration
    FROM (${searched}) AS newest
    WHERE kind = 'attempt' AND outcome = 'success' AND (${isWithin})`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  return {
    answers: row.answers,
    cacheHits: row.hits,
    since: row.since,
    firstByteUs: percentiles(row.first_byte),
    durationUs: percentiles(row.duration),
  };
}

/** Postgres returns one null for each percentile of no rows. */
function percentiles(found: readonly (number | null)[] | null): Percentiles | null {
  const [p50 = null, p95 = null] = found ?? [];
  return p50 === null || p95 === null ? null : { p50, p95 };
}
