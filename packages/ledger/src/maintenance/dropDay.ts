import { type CounterSum, type DayManifest, digestSums } from '@weighbridge/archive';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { AMOUNT } from '../buckets/amountIn.ts';
import { mergeSpendWithin } from '../merging/mergeSpend.ts';
import { forgetDaysBefore } from '../spend/changedDays.ts';
import { lockLedgerMaintenance } from './maintenanceLock.ts';
import { addToOpenings, monthOf, setLockTimeout } from './partitions.ts';

const DAY_MS = 86_400_000;
/** Deleting a large day takes minutes. */
const DROP_TIMEOUT_MS = 3_600_000;
const SUMS_AT_A_TIME = 5_000;

/** The rows of a day are not those that its files have. Nothing was deleted. */
export class DayDiffersError extends Error {
  override readonly name = 'DayDiffersError';
}

/**
 * Deletes the rows of a day that is in the archive, if they count what its files count, in all counters. Writers of usage wait for the
 * last step alone, which locks the buckets of windows that go on.
 */
export async function dropDay(db: Database, manifest: DayManifest, now: Date): Promise<void> {
  const end = new Date(manifest.day.getTime() + DAY_MS);
  const ofDay = sql`event_id >= uuid_from(${manifest.day}) AND event_id < uuid_from(${end})`;
  await db.transaction().execute(async (tx) => {
    await setLockTimeout(tx);
    await sql`SET LOCAL statement_timeout = ${sql.lit(DROP_TIMEOUT_MS)}`.execute(tx);
    await lockLedgerMaintenance(tx);
    // Nobody adds to a frozen day, but for an earlier release, or a person.
    await sql`LOCK TABLE ${sql.table(monthOf(manifest.day))} IN SHARE ROW EXCLUSIVE MODE`.execute(tx);
    await sql`
      CREATE TEMPORARY TABLE dropped_sums ON COMMIT DROP AS
      SELECT bucket_key, sum(${AMOUNT}) AS nano_usd
      FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS bucket_key
      WHERE ${ofDay}
      GROUP BY bucket_key`.execute(tx);
    const { counters, sha256 } = await digestSums(droppedSums(tx));
    const { numAffectedRows } = await sql`DELETE FROM usage_events WHERE ${ofDay}`.execute(tx);
    const { rows, sums } = manifest;
    if (Number(numAffectedRows) !== rows || counters !== sums.counters || sha256 !== sums.sha256) {
      throw new DayDiffersError(
        `the ledger has ${numAffectedRows} rows of ${manifest.day.toISOString().slice(0, 10)} in ${counters} counters, and its files ${rows} in ${sums.counters}, or their sums differ`,
      );
    }
    await insertManifest(tx, manifest, now);
    await forgetDaysBefore(tx, end);
    await sql`UPDATE ledger_floor SET dropped_before = greatest(dropped_before, ${end})`.execute(tx);
    // Each bucket of the day needs a row for its opening balance.
    await mergeSpendWithin(tx);
    await sql`
      SELECT FROM spend_buckets WHERE bucket_key IN (SELECT bucket_key FROM dropped_sums)
      ORDER BY bucket_key COLLATE "C" FOR NO KEY UPDATE`.execute(tx);
    await addToOpenings(tx);
  });
}

async function* droppedSums(tx: Tx): AsyncGenerator<CounterSum[]> {
  await sql`
    DECLARE dropped NO SCROLL CURSOR FOR
    SELECT bucket_key, nano_usd::text AS nano_usd FROM dropped_sums ORDER BY bucket_key COLLATE "C"`.execute(
    tx,
  );
  for (;;) {
    const { rows } = await sql<CounterSum>`FETCH ${sql.lit(SUMS_AT_A_TIME)} FROM dropped`.execute(tx);
    if (rows.length > 0) yield rows;
    if (rows.length < SUMS_AT_A_TIME) break;
  }
  await sql`CLOSE dropped`.execute(tx);
}

async function insertManifest(
  tx: Tx,
  { day, rows, nanoUsd, sums, files }: DayManifest,
  now: Date,
): Promise<void> {
  await sql`
    INSERT INTO ledger_archive_days (day, rows, cost_nano_usd, counters, counters_sha256, archived_at)
    VALUES (${day}, ${rows}, ${String(nanoUsd)}, ${sums.counters}, ${sums.sha256}, ${now})`.execute(tx);
  const list = (values: readonly (string | number | Date)[]) => arrayLiteral(values);
  await sql`
    INSERT INTO ledger_archive_files (name, day, rows, bytes, sha256, first_admitted_at, last_admitted_at)
    SELECT name, ${day}, rows, bytes, sha256, first_admitted_at, last_admitted_at
    FROM unnest(${list(files.map(({ name }) => name))}::text[], ${list(files.map((file) => file.rows))}::bigint[],
      ${list(files.map(({ bytes }) => bytes))}::bigint[], ${list(files.map(({ sha256 }) => sha256))}::text[],
      ${list(files.map(({ firstAdmittedAt }) => firstAdmittedAt))}::timestamptz[],
      ${list(files.map(({ lastAdmittedAt }) => lastAdmittedAt))}::timestamptz[]
    ) AS file (name, rows, bytes, sha256, first_admitted_at, last_admitted_at)`.execute(tx);
}
