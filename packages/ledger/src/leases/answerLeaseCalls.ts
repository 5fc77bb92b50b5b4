import type { Database, Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type BucketRef, bucketKey } from '../buckets/bucketRef.ts';
import { lockCounters } from '../buckets/successors.ts';
import {
  type BucketState,
  decideGrant,
  type GrantWanted,
  holdOf,
  type LeaseOutcome,
  NO_LEASE,
} from './decideGrant.ts';
import { lockBuckets, openBuckets } from './lockBuckets.ts';
import { findCurrentBuckets, findNextBuckets, readHolder } from './readLeases.ts';
import { writeLeases } from './writeLeases.ts';

export interface LeaseCall extends GrantWanted {
  readonly bucket: BucketRef;
}

export interface LeaseRequest {
  /** The holder: a producer in one of its epochs. */
  readonly producerId: string;
  readonly epoch: string;
  /** At most one per bucket. */
  readonly calls: readonly LeaseCall[];
  readonly now: Date;
}

/** How a lease and its bucket stand after the call. */
export interface LeaseResult {
  readonly bucketKey: string;
  /** The newest call that was answered. */
  readonly seq: bigint;
  /** Cumulative: all that this holder was ever granted of the bucket. */
  readonly grantedNanoUsd: NanoUsd;
  readonly spentNanoUsd: NanoUsd;
  /** What all leases hold in the bucket. */
  readonly leasedNanoUsd: NanoUsd;
  /** Null: unlimited. */
  readonly limitNanoUsd: NanoUsd | null;
  readonly outcome: LeaseOutcome;
}

/** More buckets than a proxy asks for at once. */
export const MAX_LEASE_CALLS = 500;

/**
 * Takes back what a proxy returns and grants what it wants, as far as the limits leave room; each bucket for itself.
 * Safe to repeat: all figures are cumulative, and a call whose `seq` is not newer than the last is granted nothing.
 * Answers in the order of the calls. The limit is the policy's own, which nobody changes meanwhile.
 */
export async function answerLeaseCalls(db: Database, request: LeaseRequest): Promise<LeaseResult[]> {
  checkCalls(request.calls);
  if (request.calls.length === 0) return [];
  const call = () => db.transaction().execute((tx) => callWithin(tx, request));
  const answers = await call();
  if (answers) return answers;
  // By itself: an insert that waits for another's must not hold locks of buckets.
  await openBuckets(
    db,
    request.calls.map(({ bucket }) => bucket),
  );
  const opened = await call();
  if (!opened) throw new Error('a bucket that was just opened is gone');
  return opened;
}

/** Undefined where a bucket has no row yet. */
async function callWithin(tx: Tx, request: LeaseRequest): Promise<LeaseResult[] | undefined> {
  // 1. From here on neither a limit nor a counter changes.
  await lockCounters(tx, 'shared');
  const current = await findCurrentBuckets(tx, request);
  // 2. Buckets, by key: every change of a lease happens under its bucket's lock.
  const keys = request.calls.map((call) => bucketKey(call.bucket));
  const hasStale = keys.some((key) => !current.has(key));
  const nextKeys = hasStale ? await findNextBuckets(tx, request, keys) : new Map<string, string>();
  const buckets = await lockBuckets(tx, [...keys, ...nextKeys.values()]);
  // 3. Leases, and last the epoch: while we share its row, it can't be closed behind our back.
  const { leases, mayHold } = await readHolder(tx, request, keys);

  const changes = [];
  for (const call of request.calls) {
    const key = bucketKey(call.bucket);
    const bucket = buckets.get(key);
    if (!bucket) return undefined;
    const limit = current.get(key);
    const room: BucketState = limit ? { ...bucket, limit: limit.nanoUsd } : bucket;
    const before = leases.get(key);
    const decided = decideGrant(
      before ?? NO_LEASE,
      room,
      call,
      !mayHold ? 'closed' : !limit ? 'stale' : undefined,
    );
    const addedHold = holdOf(decided.lease) - holdOf(before ?? NO_LEASE);
    const nextKey = nextKeys.get(key);
    const nextRoom = nextKey === undefined ? undefined : buckets.get(nextKey);
    const next = nextKey === undefined || !nextRoom ? undefined : { ...nextRoom, key: nextKey };
    changes.push({
      key,
      next,
      windowEnd: limit?.windowEnd ?? null,
      bucket,
      room,
      before,
      addedHold,
      ...decided,
    });
  }
  // 4. Grant.
  await writeLeases(tx, request, changes);
  return changes.map(({ key, room, lease, addedHold, outcome }) => ({
    bucketKey: key,
    seq: lease.seq,
    grantedNanoUsd: lease.granted,
    spentNanoUsd: room.spent,
    leasedNanoUsd: room.leased + addedHold,
    limitNanoUsd: room.limit,
    outcome,
  }));
}

function checkCalls(calls: readonly LeaseCall[]): void {
  if (calls.length > MAX_LEASE_CALLS) {
    throw new Error(`answerLeaseCalls takes at most ${MAX_LEASE_CALLS} calls, not ${calls.length}`);
  }
  if (new Set(calls.map(({ bucket }) => bucketKey(bucket))).size < calls.length) {
    throw new Error('two calls for one bucket');
  }
  for (const { seq, returnedNanoUsd, wantNanoUsd, minimumNanoUsd } of calls) {
    if (seq < 1n || returnedNanoUsd < 0n || minimumNanoUsd < 0n || wantNanoUsd < minimumNanoUsd) {
      throw new Error('a call needs seq ≥ 1, returned ≥ 0 and 0 ≤ minimum ≤ want');
    }
  }
}
