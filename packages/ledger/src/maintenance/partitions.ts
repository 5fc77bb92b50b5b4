import type { Database, Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { AMOUNT } from '../buckets/amountIn.ts';
import { boundedSum } from '../buckets/boundedSum.ts';
import type { IdRange } from '../events/usage.ts';
import { mergeSpendWithin } from '../merging/mergeSpend.ts';
import { forgetDaysBefore } from '../spend/changedDays.ts';
import { joinMonth } from './foldedSums.ts';
import { lockLedgerMaintenance } from './maintenanceLock.ts';

const MONTHS_AHEAD = 2;
/** Adding up a large month takes minutes. */
const SUM_TIMEOUT_MS = 3_600_000;
const DAY_MS = 86_400_000;

interface Partition {
  readonly name: string;
  readonly month: Date;
  readonly end: Date;
}

/** The ids that the ledger accepts now. There are no gaps between partitions. Usage of archived days is accepted, under other ids. */
export async function readIdRange(db: Database): Promise<IdRange> {
  const { rows, archiveFrom } = await readRanges(db);
  return archiveFrom ? { ...rows, from: archiveFrom } : rows;
}

/** Where the rows of the ledger in Postgres begin. */
export async function readLedgerStart(db: Database): Promise<Date> {
  return (await readRanges(db)).rows.from;
}

/** The ids of the rows in Postgres, and where those of the archive begin; null: there is none. */
async function readRanges(
  db: Database,
): Promise<{ readonly rows: IdRange; readonly archiveFrom: Date | null }> {
  const partitions = await readPartitions(db);
  const [first, last] = [partitions[0], partitions.at(-1)];
  if (!first || !last) throw new Error('the ledger has no partition; the database is not migrated');
  const { dropped_before: floor, archive_from: archiveFrom } = await db
    .selectFrom('ledger_floor')
    .select(['dropped_before', 'archive_from'])
    .executeTakeFirstOrThrow();
  const from = floor !== null && floor > first.month ? floor : first.month;
  return { rows: { from, before: last.end }, archiveFrom };
}

export interface Retention {
  readonly now: Date;
  /** For how many days at least the ledger's rows are retained. Only whole months are dropped. */
  readonly retentionDays: number;
}

/**
 * Creates partitions up to two months ahead, and drops the months that end before the retention period. What the dropped rows
 * counted stays in the buckets, as opening balances. Returns the names of the dropped partitions. Rejects if the ledger is too
 * busy to be locked for a moment; earlier months are done then, so call it again later.
 */
export async function maintainPartitions(db: Database, retention: Retention): Promise<string[]> {
  await createAhead(db, retention.now);
  const from = await retainedFrom(db, retention);
  const start = await readLedgerStart(db);
  const dropped: string[] = [];
  for (const partition of await readPartitions(db)) {
    const isOutdated = partition.end <= from;
    // All its days are in the archive.
    const isArchived = partition.end <= start && !(await hasRows(db, partition));
    if (!isOutdated && !isArchived) continue;
    await dropPartition(db, partition);
    dropped.push(partition.name);
  }
  return dropped;
}

async function hasRows(db: Database, { name }: Partition): Promise<boolean> {
  const { rows } = await sql<{
    found: boolean;
  }>`SELECT EXISTS (SELECT FROM ${sql.table(name)}) AS found`.execute(db);
  return rows[0]?.found ?? true;
}

/**
 * The start of the retention period, by the earlier of our clock and the database's: a drop can't be undone, and a clock may be
 * years ahead.
 */
export async function retainedFrom(db: Database, { now, retentionDays }: Retention): Promise<Date> {
  return new Date((await earlierClock(db, now)).getTime() - retentionDays * DAY_MS);
}

/** The time by our clock or the database's, whichever is earlier. */
export async function earlierClock(db: Database, now: Date): Promise<Date> {
  return await instant(db, sql`least(${now}::timestamptz, statement_timestamp())`);
}

async function instant(db: Database, expression: RawBuilder<unknown>): Promise<Date> {
  const { rows } = await sql<{ at: Date }>`SELECT ${expression} AS at`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM returned no row');
  return row.at;
}

async function createAhead(db: Database, ownNow: Date): Promise<void> {
  // Bounded, so that a clock decades ahead doesn't create a thousand partitions, which slow down every query.
  const now = await instant(
    db,
    sql`least(${ownNow}::timestamptz, statement_timestamp() + interval '5 years')`,
  );
  const ahead = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + MONTHS_AHEAD, 1));
  const last = (await readPartitions(db)).at(-1)?.month ?? now;
  if (last >= ahead) return;
  await db.transaction().execute(async (tx) => {
    await setLockTimeout(tx);
    // From the last one, so that a service that was down for months leaves no gap.
    await sql`
      SELECT create_usage_partition(month)
      FROM unnest(${monthsFrom(last, ahead)}::timestamptz[]) AS month`.execute(tx);
  });
}

/** The starts of the months from `first` to `last`, both inclusive. */
function monthsFrom(first: Date, last: Date): Date[] {
  const months: Date[] = [];
  for (let at = first; at <= last; at = new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1))) {
    months.push(at);
  }
  return months;
}

async function dropPartition(db: Database, { name, month, end }: Partition): Promise<void> {
  // Committed first: from here on, validation refuses events of the partition.
  await sql`
    UPDATE ledger_floor SET dropped_before = greatest(dropped_before, ${end}),
      -- What was dropped before it was archived is in neither place.
      archive_from = CASE WHEN dropped_before >= ${end} THEN archive_from
        WHEN archive_from IS NOT NULL THEN greatest(archive_from, ${end}) END`.execute(db);
  await db.transaction().execute(async (tx) => {
    await setLockTimeout(tx);
    await sql`SET LOCAL statement_timeout = ${sql.lit(SUM_TIMEOUT_MS)}`.execute(tx);
    await lockLedgerMaintenance(tx);
    // Events validated earlier may still be written: wait for those writers, and block new ones during the sum.
    await sql`LOCK TABLE ${sql.table(name)} IN SHARE MODE`.execute(tx);
    await sql`
      CREATE TEMPORARY TABLE dropped_sums ON COMMIT DROP AS
      SELECT bucket_key, ${boundedSum(sql`sum(${AMOUNT})`)} AS nano_usd
      FROM ${sql.table(name)}, unnest(bucket_keys) AS bucket_key
      GROUP BY bucket_key`.execute(tx);
    // Before any bucket: a writer of the ledger holds a lock on this table while it waits for buckets.
    await sql`LOCK TABLE usage_events IN ACCESS EXCLUSIVE MODE`.execute(tx);
    // Each bucket of the month needs a row for its opening balance.
    await mergeSpendWithin(tx);
    await addToOpenings(tx);
    await forgetDaysBefore(tx, end);
    // As the owner of the table, which the apps' role need not be.
    await sql`SELECT drop_usage_partition(${month})`.execute(tx);
  });
}

/** Adds `dropped_sums` to the opening balances of buckets, and then of the months that have those which are folded. */
export async function addToOpenings(tx: Tx): Promise<void> {
  await sql`
    WITH opened AS (
      UPDATE spend_buckets
      SET opening_nano_usd = ${boundedSum(sql`opening_nano_usd::numeric + dropped_sums.nano_usd`)}
      FROM dropped_sums WHERE spend_buckets.bucket_key = dropped_sums.bucket_key
      RETURNING dropped_sums.bucket_key
    )
    DELETE FROM dropped_sums USING opened WHERE dropped_sums.bucket_key = opened.bucket_key`.execute(tx);
  await sql`
    UPDATE spend_by_month AS folded
    SET opening_nano_usd = ${boundedSum(sql`folded.opening_nano_usd::numeric + dropped.nano_usd`)}
    FROM (
      SELECT month.policy_id, month.counter_version, month.subject, month.month, sum(nano_usd) AS nano_usd
      FROM dropped_sums ${joinMonth(sql.ref('dropped_sums.bucket_key'))}
      GROUP BY 1, 2, 3, 4
    ) AS dropped
    WHERE folded.policy_id = dropped.policy_id AND folded.counter_version = dropped.counter_version
      AND folded.subject = dropped.subject AND folded.month = dropped.month`.execute(tx);
}

/** While a lock on the whole ledger waits, all writers wait behind it: better to fail and try later. */
export async function setLockTimeout(tx: Tx): Promise<void> {
  await sql`SET LOCAL lock_timeout = '3s'`.execute(tx);
}

/** The name of the partition of a day. */
export function monthOf(day: Date): string {
  return `usage_events_${day.toISOString().slice(0, 7).replace('-', '_')}`;
}

/** In the order of their months, which their names contain (`usage_events_2026_11`). */
async function readPartitions(db: Database): Promise<Partition[]> {
  const { rows } = await sql<{ name: string }>`
    SELECT child.relname AS name
    FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
    WHERE inhparent = 'usage_events'::regclass
    ORDER BY child.relname`.execute(db);
  return rows.map(({ name }) => {
    const [year, month] = name.split('_').slice(-2).map(Number);
    if (!year || !month) throw new Error(`${name} is not the name of a monthly partition`);
    return { name, month: new Date(Date.UTC(year, month - 1, 1)), end: new Date(Date.UTC(year, month, 1)) };
  });
}
