import { type BucketRef, bucketKey, bucketOfKey } from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { addToBuckets } from '../buckets/addToBuckets.ts';
import { boundedSum } from '../buckets/boundedSum.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { NOT_MERGED } from '../buckets/unmerged.ts';
import { deferThresholds } from '../budgets/dueThresholds.ts';
import { recordThresholds, type ThresholdReached } from '../budgets/thresholds.ts';
import { settleLeases } from '../leases/settleLeases.ts';

/** Rows of `appended_spend` that a transaction merges. */
const ROWS = 2_000;
/** Any number that no other advisory lock uses. */
const MERGE_LOCK = 4_117_085_263;

export interface Merged {
  readonly rows: number;
  /** The thresholds that counters reached. */
  readonly thresholds: readonly ThresholdReached[];
  /** More was appended than one transaction merges. */
  readonly hasMore: boolean;
}

/** Whether a batch has appended anything that is not merged. Cheaper than to merge nothing. */
export async function hasAppendedSpend(db: Database): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    SELECT (SELECT id FROM appended_spend WHERE ${NOT_MERGED} ORDER BY id LIMIT 1) IS NOT NULL AS has`.execute(
    db,
  );
  return rows[0]?.has === true;
}

/**
 * Merges what batches appended: adds it to its buckets and settles its leases, both in one transaction, so that spent plus leased never
 * falls early. Undefined if another worker does.
 */
export async function mergeSpend(
  db: Database,
  now: Date,
  progress: MergeProgress = {},
): Promise<Merged | undefined> {
  return await db.transaction().execute(async (tx) => {
    // 1. From here to the commit, no counter is started, which would take leases over.
    await lockCounters(tx, 'shared');
    const { rows } = await sql<{ taken: boolean }>`
      SELECT pg_try_advisory_xact_lock(${MERGE_LOCK}) AS taken`.execute(tx);
    if (!rows[0]?.taken) return undefined;
    // 2. Take what was appended, 3. add it, and settle its leases.
    const taken = await take(tx, { most: ROWS });
    await count(tx, taken.spent);
    const hasMore = taken.rows === ROWS;
    if (!hasMore) await skipMerged(tx, taken, progress, now);
    // 4. As a batch does for the buckets that it adds to.
    const thresholds = await recordThresholds(tx, [...new Set(taken.spent.map(({ key }) => key))], now);
    return { rows: taken.rows, thresholds, hasMore };
  });
}

/**
 * Merges what was appended to a policy's buckets, or to all, within a transaction that no batch can overtake. Thresholds are left to
 * metering's maintenance.
 */
export async function mergeSpendWithin(
  tx: Tx,
  of: { readonly policyId?: string; readonly most?: number } = {},
): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${MERGE_LOCK})`.execute(tx);
  const { spent } = await take(tx, of);
  await count(tx, spent);
  await deferThresholds(
    tx,
    spent.map(({ key }) => key),
  );
}

interface Spent {
  readonly key: string;
  readonly producerId: string;
  readonly epoch: string;
  readonly nanoUsd: NanoUsd;
  readonly settledFrom: Date;
}

interface Taken {
  readonly spent: readonly Spent[];
  readonly rows: number;
  readonly lastId: bigint;
  /** Every transaction before this one has ended. */
  readonly endedBefore: bigint;
  /** Every transaction that wrote a row of these had begun before this one. */
  readonly begunBefore: bigint;
}

/** Deletes the oldest rows, and returns their sums. Call it with `MERGE_LOCK`. */
async function take(
  tx: Tx,
  { policyId, most }: { readonly policyId?: string; readonly most?: number },
): Promise<Taken> {
  const ofPolicy = policyId === undefined ? sql`true` : sql`starts_with(bucket_key, ${`${policyId}/`})`;
  const limit = most === undefined ? sql`` : sql`LIMIT ${most}`;
  const { rows } = await sql<Spent & Omit<Taken, 'spent'>>`
    WITH oldest AS MATERIALIZED (
      SELECT id FROM appended_spend WHERE ${NOT_MERGED} AND ${ofPolicy} ORDER BY id ${limit}
    ), taken AS (
      -- By their keys: a join may read the table.
      DELETE FROM appended_spend WHERE id = ANY (ARRAY(SELECT id FROM oldest)) RETURNING *
    )
    SELECT bucket_key AS key, producer_id AS "producerId", epoch, ${boundedSum(sql`sum(nano_usd)`)} AS "nanoUsd",
      max(settled_from) AS "settledFrom",
      (sum(count(*)) OVER ())::integer AS rows, max(max(id)) OVER () AS "lastId",
      pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS "endedBefore",
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS "begunBefore"
    FROM taken GROUP BY bucket_key, producer_id, epoch`.execute(tx);
  const { rows: count = 0, lastId = 0n, endedBefore = 0n, begunBefore = 0n } = rows[0] ?? {};
  return { spent: rows, rows: count, lastId, endedBefore, begunBefore };
}

/** As a batch does with its other buckets. */
async function count(tx: Tx, spent: readonly Spent[]): Promise<void> {
  const events = spent.map(({ key, producerId, epoch, nanoUsd, settledFrom }) => {
    const bucket: BucketRef = bucketOfKey(key);
    return {
      row: { producer_id: producerId, epoch, cost_nano_usd: nanoUsd, settled_at: settledFrom },
      buckets: [bucket],
      counters: new Map([[bucketKey(bucket), bucket]]),
    };
  });
  await addToBuckets(tx, events);
  await settleLeases(tx, events);
}

/** How far a worker knows that all is merged. */
export interface MergeProgress {
  /** Once all transactions before it have ended, nothing up to this id is appended any more. */
  pending?: { readonly id: bigint; readonly begunBefore: bigint } | undefined;
  /** In Unix milliseconds. */
  skippedAt?: number;
}

/** The row is read by every lease call: its versions are few. */
const SKIP_EVERY_MS = 10_000;

/**
 * Lets readers skip what is merged, as far as no transaction that is still running can append to it. Each id was taken after its
 * transaction had begun, so ids up to the last one seen are of transactions that had begun by then.
 */
async function skipMerged(tx: Tx, taken: Taken, progress: MergeProgress, now: Date): Promise<void> {
  if (taken.rows === 0) return;
  const { pending, skippedAt = 0 } = progress;
  progress.pending ??= { id: taken.lastId, begunBefore: taken.begunBefore };
  const isOver = pending !== undefined && taken.endedBefore >= pending.begunBefore;
  if (!isOver || Math.abs(now.getTime() - skippedAt) < SKIP_EVERY_MS) return;
  await sql`UPDATE merged_spend SET up_to_id = greatest(up_to_id, ${pending.id})`.execute(tx);
  progress.pending = undefined;
  progress.skippedAt = now.getTime();
}
