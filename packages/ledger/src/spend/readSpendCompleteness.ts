import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { GAP_TOLERANCE_SECONDS, LEDGER_AS_OF } from '../producers/ledgerAsOf.ts';
import { mayLackFolded } from './mayLackFolded.ts';
import type { SpendQuery } from './spendQuery.ts';
import { eventsReadFrom } from './spendSql.ts';
import { readSumsSince } from './sumsSince.ts';

export interface Completeness {
  /** The time up to which all usage is known to be counted. */
  readonly asOf: Date;
  /** All usage of the query's range is known to be in the ledger, still to be there, and to be in the result. */
  readonly isComplete: boolean;
  /** Usage that the query's filter may want counts under `(other)`, and is not in the result. */
  readonly mayLackFolded: boolean;
}

/**
 * Whether a query's result has all usage of its range. Read it before the data that it describes.
 *
 * What a lost epoch or a lasting gap lacks was settled after the epoch's watermark; the day allows for requests that were
 * admitted long before. Usage in quarantine was received after its admission.
 */
export async function readSpendCompleteness(
  db: Database,
  query: SpendQuery,
  archive?: Archive,
): Promise<Completeness> {
  const { from, to, principalId } = query.filter;
  const mayConcernRange = sql`producers.mark_at < ${to}::timestamptz + interval '1 day'`;
  const lacksFolded = mayLackFolded(query, await readSumsSince(db));
  const begins = archive ? sql`coalesce(archive_from, dropped_before)` : sql`dropped_before`;
  const { rows } = await sql<{ as_of: Date; complete: boolean; folded: boolean }>`
    SELECT ${LEDGER_AS_OF} AS as_of, ${lacksFolded} AS folded,
      ${LEDGER_AS_OF} >= ${to}
      AND NOT EXISTS (
        SELECT FROM producers WHERE state = 'lost' AND ended_at >= ${from} AND ${mayConcernRange}
      )
      AND NOT EXISTS (
        SELECT FROM producer_shards JOIN producers USING (producer_id, epoch)
        WHERE state = 'open' AND ${mayConcernRange}
          AND gap_since < statement_timestamp() - make_interval(secs => ${GAP_TOLERANCE_SECONDS})
      )
      AND NOT EXISTS (
        SELECT FROM quarantined_usage
        WHERE state = 'held' AND received_at >= ${from}
          AND (${principalId ?? null}::text IS NULL OR principal_id IS NULL OR principal_id = ${principalId ?? null})
      )
      AND NOT EXISTS (
        SELECT FROM ledger_floor WHERE ${begins} > ${eventsReadFrom(query) ?? null}::timestamptz
      ) AS complete`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM returned no row');
  return { asOf: row.as_of, isComplete: row.complete && !row.folded, mayLackFolded: row.folded };
}
