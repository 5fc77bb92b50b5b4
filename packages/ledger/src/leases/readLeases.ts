import { type BucketRef, type BucketState, bucketKey, type LeaseFigures } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type LimitWindow, type NanoUsd, windowAt, windowFrom } from '@weighbridge/domain';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { isOverridden, limitAt } from '../buckets/overrides.ts';
import { appendedTo } from './appendedTo.ts';
import { newestStart } from './firstUseWindows.ts';
import { leaseOf } from './leaseOf.ts';

/** A row of `spend_buckets` as it was read. */
export interface ReadBucket {
  readonly key: string;
  /** Its limit, which may not be the policy's yet. */
  readonly limit: NanoUsd | null;
  /** Every update of the row changes it. */
  readonly version: string;
}

/** What a call is decided by. */
export interface ReadCall {
  readonly key: string;
  /** Undefined: the bucket is not of its policy's current counter and window. */
  readonly current: CurrentLimit | undefined;
  /** Undefined: it has no row. As if all that was appended to it was merged. */
  readonly bucket: (ReadBucket & BucketState) | undefined;
  /** Undefined: the holder has none. */
  readonly lease: LeaseFigures | undefined;
  /** What was appended for the lease to settle. */
  readonly appended: NanoUsd;
  /** The bucket of the newer counter that the lease holds in as well. */
  readonly newer: ReadBucket | undefined;
  /** What the leases of other holders may keep in the bucket. Those of lost epochs count too. */
  readonly othersStanding: NanoUsd;
}

interface CurrentLimit {
  /** The limit of its override, else of its policy. Null: unlimited. */
  readonly nanoUsd: NanoUsd | null;
  /** Null: the window never ends. */
  readonly windowEnd: Date | null;
  /** How many buckets of values a key may open. Null: the bucket is open, has an override, or is of a policy's own limit. */
  readonly maxCounters: number | null;
}

export interface ReadCalls {
  /** In the order of the calls. */
  readonly calls: readonly ReadCall[];
  /** Whether the holder's epoch may be granted anything. */
  readonly mayHold: boolean;
}

interface CallRow extends Record<keyof LeaseFigures, unknown> {
  readonly bucket_key: string;
  readonly counter_version: number | null;
  readonly window_kind: LimitWindow['window_kind'];
  readonly window_every: string | null;
  /** When the newest window opened, of a limit whose windows open on first use. */
  readonly started_at: Date | null;
  readonly timezone: string;
  readonly limit_nano_usd: NanoUsd | null;
  readonly max_counters: number | null;
  readonly bucket_version: string | null;
  readonly bucket_limit: NanoUsd | null;
  readonly bucket_spent: NanoUsd;
  readonly bucket_leased: NanoUsd;
  readonly spent_by_holder: NanoUsd;
  readonly newer_key: string | null;
  readonly newer_version: string;
  readonly newer_limit: NanoUsd | null;
  readonly others_standing: NanoUsd;
  readonly may_hold: boolean | null;
  readonly seq: bigint | null;
}

/** Reads, in one statement and without a lock of a row, all that some calls of a holder are decided by. */
export async function readLeaseCalls(
  tx: Tx,
  {
    producerId,
    epoch,
    calls,
    now,
  }: {
    readonly producerId: string;
    readonly epoch: string;
    readonly calls: readonly { readonly bucket: BucketRef }[];
    readonly now: Date;
  },
): Promise<ReadCalls> {
  const ownLease = leaseOf({
    bucketKey: sql.ref('wanted.bucket_key'),
    producerId: sql`${producerId}::uuid`,
    epoch: sql`${epoch}::uuid`,
  });
  // Each row is looked up by its key: a join may read a table.
  const { rows } = await sql<CallRow>`
    SELECT wanted.bucket_key,
      policies.counter_version, policies.window_kind, policies.window_every, policies.timezone, newest.started_at,
      -- A value that an operator gave a limit has its own counter in any case: in others, that limit would not hold.
      CASE WHEN bucket.version IS NULL AND NOT ${isOverridden(sql.ref('wanted.subject'), now)}
        THEN policies.max_counters END AS max_counters,
      ${limitAt(sql.ref('wanted.subject'), now)} AS limit_nano_usd,
      bucket.version AS bucket_version, bucket.limit_nano_usd AS bucket_limit,
      bucket.spent_nano_usd + appended.spent AS bucket_spent,
      bucket.leased_nano_usd - appended.settled AS bucket_leased,
      lease.seq, lease.granted_nano_usd AS granted, lease.returned_nano_usd AS returned,
      lease.settled_nano_usd AS settled, lease.standing_nano_usd AS standing, lease.closed,
      appended.spent_by_holder, newer.bucket_key AS newer_key, newer.version AS newer_version, newer.limit_nano_usd AS newer_limit,
      coalesce(others.standing, 0) AS others_standing,
      (
        SELECT state = 'open' AND superseded_by IS NULL FROM producers
        WHERE producer_id = ${producerId} AND epoch = ${epoch}
      ) AS may_hold
    FROM unnest(${arrayLiteral(calls.map(({ bucket }) => bucketKey(bucket)))}::text[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.policyId))}::text[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.subject))}::text[])
      WITH ORDINALITY AS wanted (bucket_key, policy_id, subject, position)
    LEFT JOIN LATERAL (${definitionOf(sql.ref('wanted.policy_id'), sql.ref('wanted.subject'))}) AS policies ON true
    LEFT JOIN LATERAL (${newestStart({
      policyId: sql.ref('wanted.policy_id'),
      version: sql.ref('policies.counter_version'),
      subject: sql.ref('wanted.subject'),
    })}) AS newest ON policies.window_every IS NOT NULL
    LEFT JOIN LATERAL (${bucketNamed('wanted.bucket_key')}) AS bucket ON true
    LEFT JOIN LATERAL (${ownLease}) AS lease ON true
    LEFT JOIN LATERAL (${bucketNamed('lease.also_bucket_key')}) AS newer ON true
    CROSS JOIN LATERAL (${appendedTo(sql.ref('wanted.bucket_key'), { producerId, epoch })}) AS appended
    -- A sum for each bucket, of all its leases: a join may read all buckets', a condition those of an index that it matches.
    CROSS JOIN LATERAL (
      SELECT sum(standing_nano_usd) FILTER (
        WHERE standing_nano_usd > 0 AND NOT closed AND NOT (producer_id = ${producerId} AND epoch = ${epoch})
      )::bigint AS standing
      FROM budget_leases AS other WHERE other.bucket_key = wanted.bucket_key
    ) AS others
    ORDER BY wanted.position`.execute(tx);
  return {
    calls: rows.map((row, at) => readCall(row, calls[at]?.bucket, now)),
    mayHold: rows[0]?.may_hold === true,
  };
}

function bucketNamed(key: string) {
  return sql`
    SELECT *, xmin::text AS version FROM spend_buckets AS named WHERE named.bucket_key = ${sql.ref(key)} LIMIT 1`;
}

function readCall(row: CallRow, bucket: BucketRef | undefined, now: Date): ReadCall {
  const { bucket_key: key, seq, granted, returned, settled, standing, closed } = row;
  const isFound = row.bucket_version !== null;
  const lease = { seq, granted, returned, settled, standing, closed } as LeaseFigures;
  return {
    key,
    current: bucket && currentLimit(row, bucket, now),
    bucket: isFound
      ? {
          key,
          version: row.bucket_version,
          limit: row.bucket_limit,
          spent: row.bucket_spent,
          leased: row.bucket_leased,
        }
      : undefined,
    lease: seq === null ? undefined : lease,
    appended: row.spent_by_holder,
    newer:
      row.newer_key === null
        ? undefined
        : { key: row.newer_key, version: row.newer_version, limit: row.newer_limit },
    othersStanding: row.others_standing,
  };
}

function currentLimit(row: CallRow, bucket: BucketRef, now: Date): CurrentLimit | undefined {
  if (row.counter_version !== bucket.counterVersion) return undefined;
  if (row.window_kind === 'first_use') return firstUseLimit(row, bucket, now);
  const window = windowAt(row.window_kind, row.timezone, now);
  if (BigInt(window.start.getTime()) !== bucket.windowStartMs) return undefined;
  return { nanoUsd: row.limit_nano_usd, windowEnd: window.end, maxCounters: row.max_counters };
}

/** A window that opened on first use is current while it is the newest, and not over. */
function firstUseLimit(row: CallRow, bucket: BucketRef, now: Date): CurrentLimit | undefined {
  const { started_at: start, limit_nano_usd, max_counters } = row;
  if (!start || BigInt(start.getTime()) !== bucket.windowStartMs) return undefined;
  const { end } = windowFrom(row, start);
  if (end && end <= now) return undefined;
  return { nanoUsd: limit_nano_usd, windowEnd: end, maxCounters: max_counters };
}

/** Locks the buckets that exist until the transaction ends, in the order that every writer uses. */
export async function lockBuckets(tx: Tx, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await sql`SELECT FROM spend_buckets ${lockedInOrder(keys)}`.execute(tx);
}

/** The rest of a statement that selects and locks buckets, in the order that every writer uses. */
export function lockedInOrder(keys: readonly string[]) {
  return sql`
    WHERE bucket_key = ANY (${arrayLiteral(keys)}::text[])
    ORDER BY bucket_key COLLATE "C"
    FOR NO KEY UPDATE`;
}
