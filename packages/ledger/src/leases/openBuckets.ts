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
  const counted = missing.filter(isCounted);
  if (counted.length === 0) return new Set();
  return await db.transaction().execute((tx) => openCounted(tx, counted));
}

/** The buckets that one key names of one limit and window, which its count there admits. */
interface Opening {
  readonly limit_id: string;
  readonly counter_version: number;
  readonly window_start: Date;
  readonly key_id: string;
  readonly maxCounters: number;
  readonly buckets: BucketRef[];
}

/** In the order in which their counts are locked. */
function openingsOf(missing: readonly MissingBucket[]): Opening[] {
  const openings = new Map<string, Opening>();
  for (const { bucket, keyId, maxCounters } of missing) {
    const { policyId, counterVersion, windowStartMs } = bucket;
    const name = nameOf(policyId, counterVersion, windowStartMs, keyId);
    const opening = openings.get(name) ?? {
      limit_id: policyId,
      counter_version: counterVersion,
      window_start: windowStartOf(bucket),
      key_id: keyId,
      maxCounters: maxCounters ?? 0,
      buckets: [],
    };
    openings.set(name, opening);
    opening.buckets.push(bucket);
  }
  return [...openings].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, opening]) => opening);
}

const nameOf = (limitId: string, version: number, windowStartMs: bigint, keyId: string) =>
  JSON.stringify([limitId, version, String(windowStartMs), keyId]);

/** Waits for those that open buckets for the same keys, and for no others. Four statements, however many limits and keys. */
async function openCounted(tx: Tx, missing: readonly MissingBucket[]): Promise<ReadonlySet<string>> {
  const openings = openingsOf(missing);
  // 1. Lock the keys' counts.
  const opened = await lockCounts(tx, openings);
  // 2. Others may have opened some of them meanwhile.
  const isOpen = await openOnes(tx, missing);
  const unopened = new Set<string>();
  const opening: BucketRef[] = [];
  const counts: number[] = openings.map(({ buckets, maxCounters }, at) => {
    const closed = buckets.filter((bucket) => !isOpen.has(bucketKey(bucket)));
    const admitted = closed.slice(0, Math.max(0, maxCounters - (opened[at] ?? 0)));
    for (const bucket of closed.slice(admitted.length)) unopened.add(bucketKey(bucket));
    opening.push(...admitted);
    return admitted.length;
  });
  // 3. Open what they may. One that two keys name counts for both.
  if (opening.length > 0) {
    await insertBuckets(tx, opening);
    await addToCounts(tx, openings, counts);
  }
  return unopened;
}

const countColumns = (openings: readonly Opening[]) => sql`
  ${arrayLiteral(openings.map(({ limit_id }) => limit_id))}::text[],
  ${arrayLiteral(openings.map(({ counter_version }) => counter_version))}::int[],
  ${arrayLiteral(openings.map(({ window_start }) => window_start))}::timestamptz[],
  ${arrayLiteral(openings.map(({ key_id }) => key_id))}::text[]`;

/** Returns how many each has opened. */
async function lockCounts(tx: Tx, openings: readonly Opening[]): Promise<readonly number[]> {
  const { rows } = await sql<Omit<Opening, 'maxCounters' | 'buckets'> & { readonly opened: number }>`
    INSERT INTO opened_counters (limit_id, counter_version, window_start, key_id, opened)
    SELECT wanted.limit_id, wanted.counter_version, wanted.window_start, wanted.key_id, 0
    FROM unnest(${countColumns(openings)}) WITH ORDINALITY AS wanted (limit_id, counter_version, window_start, key_id, at)
    ORDER BY wanted.at
    ON CONFLICT (limit_id, counter_version, window_start, key_id) DO UPDATE SET opened = opened_counters.opened
    RETURNING limit_id, counter_version, window_start, key_id, opened`.execute(tx);
  const openedOf = new Map(
    rows.map((row) => [
      nameOf(row.limit_id, row.counter_version, BigInt(row.window_start.getTime()), row.key_id),
      row.opened,
    ]),
  );
  return openings.map(
    ({ limit_id, counter_version, window_start, key_id }) =>
      openedOf.get(nameOf(limit_id, counter_version, BigInt(window_start.getTime()), key_id)) ?? 0,
  );
}

async function addToCounts(tx: Tx, openings: readonly Opening[], counts: readonly number[]): Promise<void> {
  await sql`
    UPDATE opened_counters SET opened = opened_counters.opened + added.count
    FROM unnest(${countColumns(openings)}, ${arrayLiteral(counts)}::int[])
      AS added (limit_id, counter_version, window_start, key_id, count)
    WHERE opened_counters.limit_id = added.limit_id AND opened_counters.counter_version = added.counter_version
      AND opened_counters.window_start = added.window_start AND opened_counters.key_id = added.key_id
      AND added.count > 0`.execute(tx);
}

async function openOnes(tx: Tx, missing: readonly MissingBucket[]): Promise<ReadonlySet<string>> {
  const keys = arrayLiteral(missing.map(({ bucket }) => bucketKey(bucket)));
  const { rows } = await sql<{ bucket_key: string }>`
    SELECT bucket_key FROM spend_buckets WHERE bucket_key = ANY (${keys}::text[])`.execute(tx);
  return new Set(rows.map(({ bucket_key }) => bucket_key));
}

async function insertBuckets(db: Database, buckets: readonly BucketRef[]): Promise<void> {
  await sql`
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
}
