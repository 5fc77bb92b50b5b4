import type { Database, Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';
import { limitPause } from '../buckets/limitPause.ts';
import { applyPart, differingParts } from './applySums.ts';
import { compareSums } from './compareSums.ts';
import { LEDGER_MAINTENANCE_LOCK } from './maintenanceLock.ts';

/** How far the derived sums differed from the ledger's rows, in one snapshot. */
export interface RebuildResult {
  /** How many rows of the ledger were added up. */
  readonly events: bigint;
  /** How many buckets there are, including those that only a row of the ledger names. */
  readonly buckets: number;
  readonly differingBuckets: number;
  /** The first `MAX_LISTED` of them by key, with the ledger's sum minus the bucket's. */
  readonly differing: readonly { readonly bucketKey: string; readonly differenceNanoUsd: NanoUsd }[];
  /** The sum of the buckets' absolute differences. */
  readonly differenceNanoUsd: NanoUsd;
  /** How many sums by hour and day differed. */
  readonly differingHours: number;
}

/** Another rebuild is running on this database, or a month of the ledger is being dropped. */
export class RebuildRunningError extends Error {
  constructor() {
    super(
      'Another rebuild of the ledger is running, or one of its months is being dropped. Retry when it is done.',
    );
    this.name = 'RebuildRunningError';
  }
}

const MAX_LISTED = 1_000;
/** Adding up a large ledger takes minutes. */
const TIMEOUT_MS = 3_600_000;

/**
 * Compares, in one snapshot, every bucket with its opening balance plus the ledger's rows that name it, and the sums by hour
 * and day with their rows. With `apply`, adds the differences to the sums. Usage may be written meanwhile: it changes rows and
 * sums alike, so the differences stay the same. If it fails midway, the next run finds the remaining differences. Throws
 * `RebuildRunningError` if another one is running.
 */
export async function rebuildBuckets(
  db: Database,
  { apply, maxCombinations }: { readonly apply: boolean; readonly maxCombinations?: number },
): Promise<RebuildResult> {
  // One connection: the lock and the temporary tables belong to it.
  return await db.connection().execute(async (connection) => {
    const { rows } = await sql<{ taken: boolean }>`
      SELECT pg_try_advisory_lock(${LEDGER_MAINTENANCE_LOCK}) AS taken`.execute(connection);
    if (!rows[0]?.taken) throw new RebuildRunningError();
    try {
      // 1. Find the differences, in one snapshot.
      const rebuilt = await connection
        .transaction()
        .setIsolationLevel('repeatable read')
        .execute(async (tx) => {
          await limitTime(tx);
          await compareBuckets(tx);
          await compareSums(tx);
          return await summary(tx);
        });
      // 2. Apply them as deltas, which commute with usage. Some thousand rows per transaction, since usage waits for its locks.
      if (apply) {
        await connection.transaction().execute(async (tx) => {
          await limitTime(tx);
          await limitPause(tx);
          await applyToBuckets(tx);
        });
        for (const part of await differingParts(connection)) {
          await connection.transaction().execute(async (tx) => {
            await limitTime(tx);
            await limitPause(tx);
            await applyPart(tx, part, maxCombinations);
          });
        }
      }
      return rebuilt;
    } finally {
      await sql`DROP TABLE IF EXISTS pg_temp.bucket_differences, pg_temp.sum_differences`.execute(connection);
      await sql`SELECT pg_advisory_unlock(${LEDGER_MAINTENANCE_LOCK})`.execute(connection);
    }
  });
}

async function limitTime(tx: Tx): Promise<void> {
  await sql`SET LOCAL statement_timeout = ${sql.lit(TIMEOUT_MS)}`.execute(tx);
}

async function compareBuckets(tx: Tx): Promise<void> {
  await sql`
    CREATE TEMPORARY TABLE bucket_differences AS
    SELECT bucket_key, (expected - coalesce(spent_nano_usd, 0))::bigint AS difference, spent_nano_usd IS NULL AS is_missing
    FROM (
      SELECT bucket_key, sum(cost_nano_usd) AS counted
      FROM usage_events CROSS JOIN LATERAL unnest(bucket_keys) AS bucket_key
      GROUP BY bucket_key
    ) AS ledger
    FULL JOIN spend_buckets USING (bucket_key)
    CROSS JOIN LATERAL (
      SELECT ${boundedSum(sql`coalesce(opening_nano_usd, 0) + coalesce(counted, 0)`)} AS expected
    ) AS bounded
    WHERE spent_nano_usd IS NULL OR expected <> spent_nano_usd`.execute(tx);
}

async function summary(tx: Tx): Promise<RebuildResult> {
  const { rows } = await sql<Record<'events' | 'buckets' | 'differing' | 'hours', bigint> & { nano: string }>`
    SELECT (SELECT count(*) FROM usage_events) AS events,
      (SELECT count(*) FROM spend_buckets) + count(*) FILTER (WHERE is_missing) AS buckets,
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
    ORDER BY bucket_key COLLATE "C"
    ON CONFLICT (bucket_key) DO UPDATE
      SET spent_nano_usd = ${boundedSum(sql`spend_buckets.spent_nano_usd::numeric + excluded.spent_nano_usd`)}`.execute(
    tx,
  );
}
