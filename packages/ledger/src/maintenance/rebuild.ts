import type { Database, Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';
import { AMOUNT } from '../buckets/amountIn.ts';
import { boundedSum } from '../buckets/boundedSum.ts';
import { limitPause } from '../buckets/limitPause.ts';
import { applyPart, differingParts } from './applySums.ts';
import { compareSums } from './compareSums.ts';
import { joinMonth, SUMS, sumKey } from './foldedSums.ts';
import { withLedgerMaintenance } from './maintenanceLock.ts';

/** How far the derived sums differed from the ledger's rows, in one snapshot. */
export interface RebuildResult {
  /** How many rows of the ledger were added up. */
  readonly events: bigint;
  /** How many buckets and months of folded ones there are, including buckets that only a row of the ledger names. */
  readonly buckets: number;
  readonly differingBuckets: number;
  /**
   * The first `MAX_LISTED` of them by key, with the ledger's sum minus the bucket's. A month of folded windows has the month in place of
   * a window's start in its key: `pol_…/1/2026-11/policy`.
   */
  readonly differing: readonly { readonly bucketKey: string; readonly differenceNanoUsd: NanoUsd }[];
  /** The sum of the buckets' absolute differences. */
  readonly differenceNanoUsd: NanoUsd;
  /** How many sums by hour and day differed. */
  readonly differingHours: number;
}

const MAX_LISTED = 1_000;
/** Adding up a large ledger takes minutes. */
const TIMEOUT_MS = 3_600_000;

/**
 * Compares, in one snapshot, every bucket with its opening balance plus the ledger's rows that name it, folded windows by their counter
 * and month, and the sums by hour and day with their rows. With `apply`, adds the differences to the sums. Usage may be written, and
 * windows folded, meanwhile: that changes rows and sums alike, so the differences stay the same. If it fails midway, the next run finds
 * the remaining differences. Throws `RebuildRunningError` if another one is running.
 */
export async function rebuildBuckets(
  db: Database,
  { apply, maxCombinations }: { readonly apply: boolean; readonly maxCombinations?: number },
): Promise<RebuildResult> {
  return await withLedgerMaintenance(db, async (connection) => {
    try {
      // 1. Find the differences, in one snapshot.
      const rebuilt = await inSnapshot(connection, async (tx) => {
        await compareBuckets(tx);
        await compareSums(tx);
        return await readDifferences(tx, sql`true`);
      });
      // 2. Apply them as deltas, which commute with usage. Some thousand rows per transaction, since usage waits for its locks.
      if (apply) {
        await inShortTransaction(connection, applyToBuckets);
        for (const part of await differingParts(connection)) {
          await inShortTransaction(connection, (tx) => applyPart(tx, part, maxCombinations));
        }
      }
      return rebuilt;
    } finally {
      await dropDifferences(connection);
    }
  });
}

/** Runs a comparison in a snapshot of its own. */
export async function inSnapshot<T>(db: Database, compare: (tx: Tx) => Promise<T>): Promise<T> {
  return await db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      await limitTime(tx);
      return await compare(tx);
    });
}

async function inShortTransaction(db: Database, write: (tx: Tx) => Promise<void>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await limitTime(tx);
    await limitPause(tx);
    await write(tx);
  });
}

/** The differences are in temporary tables of the connection. */
export async function dropDifferences(db: Database): Promise<void> {
  await sql`DROP TABLE IF EXISTS pg_temp.bucket_differences, pg_temp.sum_differences`.execute(db);
}

async function limitTime(tx: Tx): Promise<void> {
  await sql`SET LOCAL statement_timeout = ${sql.lit(TIMEOUT_MS)}`.execute(tx);
}

/** What all rows of the ledger count in each bucket. */
const COUNTED = sql`
  SELECT bucket_key, sum(${AMOUNT}) AS counted
  FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS bucket_key
  GROUP BY bucket_key`;

export async function compareBuckets(tx: Tx, counted: RawBuilder<unknown> = COUNTED): Promise<void> {
  await sql`
    CREATE TEMPORARY TABLE bucket_differences AS
    SELECT bucket_key, (expected - coalesce(spent_nano_usd, 0))::bigint AS difference, spent_nano_usd IS NULL AS is_missing
    FROM (
      SELECT ${sumKey(sql.ref('named.bucket_key'))} AS bucket_key, sum(counted) AS counted
      FROM (${counted}) AS named ${joinMonth(sql.ref('named.bucket_key'))}
      GROUP BY 1
    ) AS ledger
    FULL JOIN ${SUMS} AS sums USING (bucket_key)
    CROSS JOIN LATERAL (
      SELECT ${boundedSum(sql`coalesce(opening_nano_usd, 0) + coalesce(counted, 0)`)} AS expected
    ) AS bounded
    WHERE spent_nano_usd IS NULL OR expected <> spent_nano_usd`.execute(tx);
}

/** The differences that were found, and how many rows of the ledger meet a condition: those that were added up. */
export async function readDifferences(tx: Tx, isAdded: RawBuilder<unknown>): Promise<RebuildResult> {
  const { rows } = await sql<Record<'events' | 'buckets' | 'differing' | 'hours', bigint> & { nano: string }>`
    SELECT (SELECT count(*) FROM usage_events WHERE ${isAdded}) AS events,
      (SELECT count(*) FROM spend_buckets) + (SELECT count(*) FROM spend_by_month)
        + count(*) FILTER (WHERE is_missing) AS buckets,
      count(*) AS differing,
      coalesce(sum(abs(difference)), 0)::text AS nano,
      (SELECT count(*) FROM sum_differences) AS hours
    FROM bucket_differences`.execute(tx);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  const listed = await sql<{ bucket_key: string; difference: bigint }>`
    SELECT bucket_key, difference FROM bucket_differences ORDER BY bucket_key COLLATE "C" LIMIT ${MAX_LISTED}`.execute(
    tx,
  );
  return {
    events: row.events,
    buckets: Number(row.buckets),
    differingBuckets: Number(row.differing),
    differing: listed.rows.map(({ bucket_key, difference }) => ({
      bucketKey: bucket_key,
      differenceNanoUsd: difference,
    })),
    differenceNanoUsd: BigInt(row.nano),
    differingHours: Number(row.hours),
  };
}

async function applyToBuckets(tx: Tx): Promise<void> {
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT bucket_key, part[1], part[2]::integer, part[4], to_timestamp(part[3]::bigint / 1000.0), difference
    FROM bucket_differences
    CROSS JOIN LATERAL regexp_match(bucket_key, '^([^/]*)/(\\d+)/(-?\\d+)/(.*)$') AS part
    WHERE part IS NOT NULL
    ORDER BY bucket_key COLLATE "C"
    ON CONFLICT (bucket_key) DO UPDATE
      SET spent_nano_usd = ${boundedSum(sql`spend_buckets.spent_nano_usd::numeric + excluded.spent_nano_usd`)}`.execute(
    tx,
  );
  await sql`
    UPDATE spend_by_month AS month SET spent_nano_usd = ${boundedSum(sql`spent_nano_usd::numeric + difference`)}
    FROM bucket_differences
    CROSS JOIN LATERAL regexp_match(bucket_key, '^([^/]*)/(\\d+)/(\\d{4,}-\\d\\d)/(.*)$') AS part
    WHERE month.policy_id = part[1] AND month.counter_version = part[2]::integer AND month.subject = part[4]
      AND month.month = (part[3] || '-01Z')::timestamptz`.execute(tx);
}
