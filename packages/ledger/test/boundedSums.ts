import type { Database } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { addToSums } from '../src/spend/addToSums.ts';
import { type EventFields, ledgerEvent } from './events.ts';

/** Records events with their sums, as a writer with a bound of its own, in one transaction. Nothing counts in buckets. */
export async function recordBounded(
  db: Database,
  events: readonly (EventFields & { readonly n: number })[],
  maxCombinations?: number,
): Promise<void> {
  const rows = events.map(({ n, ...fields }) => ({
    ...ledgerEvent(n, fields).row,
    bucket_keys: ['pol/1/0/policy'],
  }));
  await db.transaction().execute(async (tx) => {
    await tx.insertInto('usage_events').values(rows).execute();
    await addToSums(
      tx,
      rows.map((row) => ({ row })),
      maxCombinations,
    );
  });
}

/** How many rows a query has. */
export async function countOf(db: Database, rows: RawBuilder<unknown>): Promise<number> {
  const found = await sql<{ count: bigint }>`SELECT count(*) AS count FROM (${rows}) AS counted`.execute(db);
  return Number(found.rows[0]?.count);
}
