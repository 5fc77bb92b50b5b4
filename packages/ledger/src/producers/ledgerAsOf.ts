import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { NOT_MERGED } from '../buckets/unmerged.ts';

/** Batches overtake each other: a number that is missing for less usually still arrives. */
export const GAP_TOLERANCE_SECONDS = 60;

/**
 * An SQL expression: the time up to which counters are known to have all usage. It is the lowest watermark of the open
 * producers, or the statement's time if none is open, and not later than what is appended and not merged yet. A lost or retired
 * producer would hold it back forever; it makes reports incomplete instead.
 */
export const LEDGER_AS_OF = sql<Date>`least(
  (SELECT min(mark_at) FROM producers WHERE state = 'open'),
  (
    SELECT min(settled_from) FROM appended_spend AS appended
    WHERE ${NOT_MERGED} AND (
      SELECT state FROM producers AS producer
      WHERE producer.producer_id = appended.producer_id AND producer.epoch = appended.epoch
    ) IN ('open', 'closed')
  ),
  statement_timestamp())`;

/** The time up to which the ledger is known to have all usage. Read it before the data that it describes. */
export async function ledgerAsOf(db: Database): Promise<Date> {
  const { rows } = await sql<{ as_of: Date }>`SELECT ${LEDGER_AS_OF} AS as_of`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM returned no row');
  return row.as_of;
}
