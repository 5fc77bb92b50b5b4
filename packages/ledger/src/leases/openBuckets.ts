import { type BucketRef, bucketKey, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** A current bucket that has no row yet. */
export interface MissingBucket {
  readonly bucket: BucketRef;
  /** The key that names it, if it is of a value of attribution; else empty. */
  readonly keyId: string;
  /** How many buckets of values a key may open in a window. Null: its limit has none. */
  readonly maxCounters: number | null;
}

/**
 * Inserts rows for buckets that have none, but for those of values that their keys may not open: a key may open so many in a window of a
 * limit, so that one that invents values leaves the others theirs. Returns the keys of those that have no row.
 */
export async function openBuckets(
  db: Database,
  missing: readonly MissingBucket[],
): Promise<ReadonlySet<string>> {
  const isCounted = ({ keyId, maxCounters }: MissingBucket) => maxCounters !== null && keyId !== '';
  const free = missing.filter((one) => !isCounted(one)).map(({ bucket }) => bucket);
  if (free.length > 0) await insertBuckets(db, free);
  const unopened = new Set<string>();
  for (const ofKey of groupedByKey(missing.filter(isCounted))) {
    // One transaction for each key: it waits for those that open buckets for the same key, and for no others.
    for (const key of await db.transaction().execute((tx) => openForKey(tx, ofKey))) unopened.add(key);
  }
  return unopened;
}

/** Those of one limit, window and key together. */
function groupedByKey(missing: readonly MissingBucket[]): MissingBucket[][] {
  const groups = new Map<string, MissingBucket[]>();
  for (const one of missing) {
    const { policyId, counterVersion, windowStartMs } = one.bucket;
    const name = JSON.stringify([policyId, counterVersion, String(windowStartMs), one.keyId]);
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return [...groups.values()];
}

async function openForKey(tx: Tx, missing: readonly MissingBucket[]): Promise<string[]> {
  const [first] = missing;
  if (!first) return [];
  const { bucket, keyId, maxCounters } = first;
  const counter = {
    limit_id: bucket.policyId,
    counter_version: bucket.counterVersion,
    window_start: windowStartOf(bucket),
    key_id: keyId,
  };
  // 1. Lock the key's count.
  const { opened } = await tx
    .insertInto('opened_counters')
    .values({ ...counter, opened: 0 })
    .onConflict((conflict) =>
      conflict
        .columns(['limit_id', 'counter_version', 'window_start', 'key_id'])
        .doUpdateSet({ opened: sql`opened_counters.opened` }),
    )
    .returning('opened')
    .executeTakeFirstOrThrow();
  // 2. Others may have opened some of them meanwhile.
  const isOpen = await openOnes(tx, missing);
  const closed = missing.filter((one) => !isOpen.has(bucketKey(one.bucket)));
  // 3. Open what it may.
  const opening = closed.slice(0, Math.max(0, (maxCounters ?? 0) - opened)).map((one) => one.bucket);
  if (opening.length > 0) {
    const inserted = await insertBuckets(tx, opening);
    await sql`
      UPDATE opened_counters SET opened = opened + ${inserted}
      WHERE limit_id = ${counter.limit_id} AND counter_version = ${counter.counter_version}
        AND window_start = ${counter.window_start} AND key_id = ${keyId}`.execute(tx);
  }
  return closed.slice(opening.length).map((one) => bucketKey(one.bucket));
}

async function openOnes(tx: Tx, missing: readonly MissingBucket[]): Promise<ReadonlySet<string>> {
  const keys = arrayLiteral(missing.map(({ bucket }) => bucketKey(bucket)));
  const { rows } = await sql<{ bucket_key: string }>`
    SELECT bucket_key FROM spend_buckets WHERE bucket_key = ANY (${keys}::text[])`.execute(tx);
  return new Set(rows.map(({ bucket_key }) => bucket_key));
}

/** Returns how many had none. */
async function insertBuckets(db: Database, buckets: readonly BucketRef[]): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT opened.*, 0
    FROM unnest(${arrayLiteral(buckets.map(bucketKey))}::text[],
                ${arrayLiteral(buckets.map(({ policyId }) => policyId))}::text[],
                ${arrayLiteral(buckets.map(({ counterVersion }) => counterVersion))}::int[],
                ${arrayLiteral(buckets.map(({ subject }) => subject))}::text[],
                ${arrayLiteral(buckets.map(windowStartOf))}::timestamptz[])
      AS opened (bucket_key, policy_id, counter_version, subject, window_start)
    ORDER BY opened.bucket_key COLLATE "C"
    ON CONFLICT DO NOTHING`.execute(db);
  return Number(numAffectedRows);
}
