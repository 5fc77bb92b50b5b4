import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';

/**
 * A clause before a statement: records days that this transaction changes, so that they are compared again, if they are over. By
 * the database's clock; a day that is not over is compared anyway.
 */
export function recordChangedDays(days: readonly Date[]): RawBuilder<unknown> {
  return sql`
    WITH changed AS (
      INSERT INTO ledger_day_changes (day)
      SELECT day FROM unnest(${arrayLiteral(days)}::timestamptz[]) AS day WHERE day < date_trunc('day', now(), 'UTC')
    )`;
}

/** Forgets what was kept of the days whose rows are dropped. */
export async function forgetDaysBefore(tx: Tx, end: Date): Promise<void> {
  await sql`DELETE FROM ledger_days WHERE day < ${end}`.execute(tx);
  await sql`DELETE FROM ledger_day_buckets WHERE day < ${end}`.execute(tx);
  await sql`DELETE FROM ledger_day_changes WHERE day < ${end}`.execute(tx);
}
