import { definedBy } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { type LimitWindow, windowFrom } from '@weighbridge/domain';
import { sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';
import { definitionOf } from '../buckets/definitionOf.ts';
import { limitPause } from '../buckets/limitPause.ts';
import { pruneLeasesOf } from '../leases/pruneLeases.ts';

export interface FoldOptions {
  /** Windows that ended before this time lose those of their leases that hold nothing. */
  readonly leasesBefore: Date;
  /** Windows that ended before this time, and have no lease, are folded. */
  readonly foldBefore: Date;
  /** Where an earlier call stopped. */
  readonly after?: string | undefined;
  readonly pages?: number;
  /** Rows of `spend_buckets` that a transaction looks at. */
  readonly pageSize?: number;
  /** Leases that a transaction deletes. */
  readonly leasesPerPage?: number;
}

/** Of a counter that was replaced, it is not known how long its windows were. None is longer than a month of 31 days with a clock change. */
const LONGEST_WINDOW_MS = 32 * 86_400_000;

/**
 * Adds ended windows to the row of their counter and month, and deletes their leases and their rows: each in one transaction, so that
 * the sums of a counter never change. Goes through the buckets in pages, by their key. Returns where it stopped if there are more, else
 * undefined.
 *
 * It takes no row that another writer has, and writers add nothing to months: what comes late to a folded window gets a row in
 * `spend_buckets` again, and is folded as that.
 */
export async function foldWindows(db: Database, options: FoldOptions): Promise<string | undefined> {
  const { pages = 20, pageSize = 500 } = options;
  let after = options.after ?? '';
  for (let page = 0; page < pages; page++) {
    const rows = await readPage(db, after, pageSize);
    if (await foldPage(db, rows, options)) continue;
    if (rows.length < pageSize) return undefined;
    after = rows.at(-1)?.bucket_key ?? '';
  }
  return after;
}

interface BucketRow {
  readonly bucket_key: string;
  readonly counter_version: number;
  readonly window_start: Date;
  /** Null: its policy is unknown. */
  readonly policy_version: number | null;
  readonly policy_id: string;
  readonly window_kind: LimitWindow['window_kind'];
  readonly window_every: string | null;
  readonly timezone: string;
}

async function readPage(db: Database, after: string, size: number): Promise<BucketRow[]> {
  const { rows } = await sql<BucketRow>`
    SELECT bucket.bucket_key, bucket.counter_version, bucket.window_start, policies.counter_version AS policy_version,
      bucket.policy_id, policies.window_kind, policies.window_every, policies.timezone
    FROM (SELECT * FROM spend_buckets WHERE bucket_key > ${after} ORDER BY bucket_key LIMIT ${size}) AS bucket
    LEFT JOIN LATERAL (${definitionOf(sql.ref('bucket.policy_id'), sql.ref('bucket.subject'))}) AS policies ON true
    ORDER BY bucket.bucket_key`.execute(db);
  return rows;
}

/** When a bucket's window has ended at the latest; undefined if it never ends. */
function endOf(row: BucketRow): Date | undefined {
  const { window_start: start } = row;
  if (start.getTime() === 0) return undefined;
  return row.counter_version === row.policy_version
    ? (windowFrom(row, start).end ?? undefined)
    : new Date(start.getTime() + longestWindowMs(row));
}

/** Those of further limits that open on first use have up to 90 days. */
function longestWindowMs({ policy_id }: BucketRow): number {
  return definedBy({ policyId: policy_id }).limitId === undefined ? LONGEST_WINDOW_MS : 91 * 86_400_000;
}

/** Returns whether the page has more leases to delete than one transaction may. */
async function foldPage(
  db: Database,
  rows: readonly BucketRow[],
  { leasesBefore, foldBefore, leasesPerPage = 2_000 }: FoldOptions,
): Promise<boolean> {
  const ends = new Map(
    rows.map((row) => [row.bucket_key, endOf(row)?.getTime() ?? Number.POSITIVE_INFINITY]),
  );
  const endedBefore = (at: Date) => [...ends.keys()].filter((key) => (ends.get(key) ?? 0) < at.getTime());
  const leases = await countLeases(db, endedBefore(leasesBefore));
  const withIdle = [...leases.keys()].filter((key) => (leases.get(key)?.idle ?? 0) > 0);
  const foldable = endedBefore(foldBefore).filter((key) => leases.get(key)?.all === leases.get(key)?.idle);
  if (withIdle.length + foldable.length === 0) return false;
  return await db.transaction().execute(async (tx) => {
    await limitPause(tx);
    const locked = await lockFree(tx, [...withIdle, ...foldable]);
    const pruned = await pruneLeasesOf(
      tx,
      withIdle.filter((key) => locked.has(key)),
      leasesPerPage,
    );
    if (pruned >= leasesPerPage) return true;
    await fold(
      tx,
      foldable.filter((key) => locked.has(key)),
    );
    return false;
  });
}

interface LeaseCount {
  readonly all: number;
  /** Those that hold nothing. */
  readonly idle: number;
}

/** The leases of each bucket that has any. */
async function countLeases(db: Database, keys: readonly string[]): Promise<Map<string, LeaseCount>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql<LeaseCount & { bucket_key: string }>`
    SELECT ended.bucket_key, count(*)::integer AS "all", count(*) FILTER (WHERE hold_nano_usd = 0)::integer AS idle
    FROM unnest(${arrayLiteral(keys)}::text[]) AS ended (bucket_key)
    -- For each bucket: a join may read all leases. OFFSET keeps it from becoming one.
    CROSS JOIN LATERAL (
      SELECT hold_nano_usd FROM budget_leases AS of_bucket WHERE of_bucket.bucket_key = ended.bucket_key OFFSET 0
    ) AS lease
    GROUP BY ended.bucket_key`.execute(db);
  return new Map(rows.map(({ bucket_key, ...counts }) => [bucket_key, counts]));
}

/** Locks those of the buckets that no other writer has: none waits for this transaction for long, and it waits for none. */
async function lockFree(tx: Tx, keys: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql<{ bucket_key: string }>`
    SELECT bucket_key FROM spend_buckets
    WHERE bucket_key = ANY (${arrayLiteral([...new Set(keys)])}::text[]) FOR UPDATE SKIP LOCKED`.execute(tx);
  return new Set(rows.map((row) => row.bucket_key));
}

/** A lease is counted again under the lock of its bucket, which whoever inserts one takes too. */
async function fold(tx: Tx, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const added = (column: string) =>
    boundedSum(sql`month.${sql.ref(column)}::numeric + excluded.${sql.ref(column)}`);
  await sql`
    WITH folded AS (
      DELETE FROM spend_buckets AS bucket
      WHERE bucket_key = ANY (${arrayLiteral(keys)}::text[])
        AND (SELECT count(*) FROM budget_leases AS lease WHERE lease.bucket_key = bucket.bucket_key) = 0
        AND (SELECT count(*) FROM budget_leases AS lease WHERE lease.also_bucket_key = bucket.bucket_key) = 0
      RETURNING *, date_trunc('month', window_start, 'UTC') AS month
    )
    INSERT INTO spend_by_month AS month (
      policy_id, counter_version, subject, month, folded_to, spent_nano_usd, opening_nano_usd)
    SELECT policy_id, counter_version, subject, month, max(window_start),
      ${boundedSum(sql`sum(spent_nano_usd)`)}, ${boundedSum(sql`sum(opening_nano_usd)`)}
    FROM folded
    GROUP BY policy_id, counter_version, subject, month
    ORDER BY policy_id, counter_version, subject, month
    ON CONFLICT (policy_id, counter_version, subject, month) DO UPDATE SET
      folded_to = greatest(month.folded_to, excluded.folded_to),
      spent_nano_usd = ${added('spent_nano_usd')}, opening_nano_usd = ${added('opening_nano_usd')}`.execute(
    tx,
  );
}
