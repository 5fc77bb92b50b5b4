import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { NOT_MERGED } from '../buckets/unmerged.ts';

/** The state of the ledger, for metrics. */
export interface LedgerState {
  readonly openProducers: number;
  readonly lostProducers: number;
  /** The age of the time up to which all usage is known to be in the ledger. */
  readonly asOfAgeMs: number;
  /** For how long the oldest spend has waited to be merged into its counters. */
  readonly unmergedMs: number;
  /** Shards with a missing number below a received one, and how long the oldest gap has lasted. */
  readonly gaps: number;
  readonly longestGapMs: number;
  /** How many entries the quarantine holds. */
  readonly heldUsage: number;
  /** Lost spools, the longest lost first; at most 100. */
  readonly lost: readonly LostProducer[];
}

export interface LostProducer {
  readonly producerId: string;
  /** The name that its proxy registered with. */
  readonly name: string;
  readonly lostForMs: number;
}

export async function readLedgerState(db: Database): Promise<LedgerState> {
  const { rows } = await sql<Omit<LedgerState, 'lost'>>`
    WITH gap AS (
      SELECT gap_since FROM producer_shards JOIN producers USING (producer_id, epoch)
      WHERE gap_since IS NOT NULL AND state <> 'retired'
    ), producer AS (
      SELECT count(*) FILTER (WHERE state = 'open')::integer AS open,
             count(*) FILTER (WHERE state = 'lost')::integer AS lost, min(mark_at) FILTER (WHERE state = 'open') AS mark_at
      FROM producers WHERE state IN ('open', 'lost')
    )
    SELECT
      open AS "openProducers", lost AS "lostProducers",
      coalesce(extract(epoch FROM statement_timestamp() - mark_at) * 1000, 0)::float8 AS "asOfAgeMs",
      coalesce((
        SELECT extract(epoch FROM statement_timestamp() - min(appended_at)) * 1000 FROM appended_spend WHERE ${NOT_MERGED}
      ), 0)::float8 AS "unmergedMs",
      (SELECT count(*)::integer FROM gap) AS gaps,
      coalesce((SELECT extract(epoch FROM statement_timestamp() - min(gap_since)) * 1000 FROM gap), 0)::float8
        AS "longestGapMs",
      (SELECT count(*)::integer FROM quarantined_usage WHERE state = 'held') AS "heldUsage"
    FROM producer`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  return { ...row, lost: row.lostProducers > 0 ? await readLost(db) : [] };
}

async function readLost(db: Database): Promise<LostProducer[]> {
  const { rows } = await sql<LostProducer>`
    SELECT producer_id AS "producerId", max(name) AS name,
      greatest(extract(epoch FROM statement_timestamp() - min(ended_at)) * 1000, 0)::float8 AS "lostForMs"
    FROM producers WHERE state = 'lost'
    GROUP BY producer_id ORDER BY min(ended_at), producer_id LIMIT 100`.execute(db);
  return rows;
}
