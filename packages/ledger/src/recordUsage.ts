import type { Database, Tx, UsageEvents } from '@weighbridge/database';
import type { Insertable } from 'kysely';
import { type BucketRef, bucketKey, principalBucket } from './buckets.ts';

/** One attempt that was sent to a vendor, priced. The ledger adds nothing to it and changes nothing in it. */
export interface LedgerEvent {
  readonly row: Omit<Insertable<UsageEvents>, 'buckets'>;
  /** The counters that it was admitted on, the governing policy's first. */
  readonly buckets: readonly BucketRef[];
}

/** Postgres takes 65,535 parameters a statement: 2,000 rows of 27 columns stay below. */
export const MAX_EVENTS_PER_TRANSACTION = 2_000;

/**
 * Writes events and the buckets that they count in, in one transaction, each event once however often it comes.
 * Returns how many were new. The order of locks is that of every writer of the ledger: events, then buckets by key.
 */
export async function recordUsage(db: Database, events: readonly LedgerEvent[]): Promise<number> {
  if (events.length === 0) return 0;
  if (events.length > MAX_EVENTS_PER_TRANSACTION) {
    throw new Error(`recordUsage takes at most ${MAX_EVENTS_PER_TRANSACTION} events, not ${events.length}`);
  }
  const once = [...new Map(events.map((event) => [event.row.event_id, event])).values()];
  return await db.transaction().execute(async (tx) => {
    // 1. Insert. What is there already was counted when it came first.
    const inserted = await insertEvents(tx, once);
    // 2. Count only what was new: a message that is delivered again changes nothing.
    await addToBuckets(
      tx,
      once.filter((event) => inserted.has(event.row.event_id)),
    );
    return inserted.size;
  });
}

async function insertEvents(tx: Tx, events: readonly LedgerEvent[]): Promise<Set<string>> {
  const rows = events
    .map(({ row, buckets }) => ({ ...row, buckets: JSON.stringify(buckets.map(bucketJson)) }))
    .sort((a, b) => (a.event_id < b.event_id ? -1 : 1));
  const added = await tx
    .insertInto('usage_events')
    .values(rows)
    .onConflict((conflict) => conflict.column('event_id').doNothing())
    .returning('event_id')
    .execute();
  return new Set(added.map((row) => row.event_id));
}

async function addToBuckets(tx: Tx, events: readonly LedgerEvent[]): Promise<void> {
  const sums = new Map<string, { bucket: BucketRef; nano: bigint }>();
  for (const { row, buckets } of events) {
    for (const [key, bucket] of countersOf(buckets, row.principal_id)) {
      const sum = sums.get(key) ?? { bucket, nano: 0n };
      sum.nano += BigInt(row.cost_nano_usd);
      sums.set(key, sum);
    }
  }
  if (sums.size === 0) return;
  await tx
    .insertInto('spend_buckets')
    .values(
      [...sums]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, { bucket, nano }]) => ({
          bucket_key: key,
          policy_id: bucket.policyId,
          counter_version: bucket.counterVersion,
          subject: bucket.subject,
          window_start: bucket.windowStart,
          spent_nano_usd: nano,
        })),
    )
    .onConflict((conflict) =>
      conflict.column('bucket_key').doUpdateSet((row) => ({
        spent_nano_usd: row('spend_buckets.spent_nano_usd', '+', row.ref('excluded.spent_nano_usd')),
      })),
    )
    .execute();
}

/** Each counter of an event once: with counter scope `principal`, the governing counter is the principal's own. */
function countersOf(buckets: readonly BucketRef[], principalId: string): Map<string, BucketRef> {
  const counters = new Map<string, BucketRef>();
  for (const bucket of buckets) {
    counters.set(bucketKey(bucket), bucket);
    const principals = principalBucket(bucket, principalId);
    counters.set(bucketKey(principals), principals);
  }
  return counters;
}

function bucketJson(bucket: BucketRef) {
  return {
    policy_id: bucket.policyId,
    counter_version: bucket.counterVersion,
    subject: bucket.subject,
    window_start: bucket.windowStart.toISOString(),
  };
}
