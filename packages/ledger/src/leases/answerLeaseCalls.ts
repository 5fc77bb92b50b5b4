import {
  type BucketRef,
  type BucketState,
  bucketKey,
  decideGrant,
  type GrantWanted,
  headroomOf,
  holdOf,
  type LeaseResult,
  MAX_BUCKETS_PER_CALL,
  min,
  NO_LEASE,
  STANDING_RULE,
  type StandingRule,
  standingOf,
} from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { lockCounters } from '../buckets/lockCounters.ts';
import {
  findCurrentBuckets,
  findNewerBuckets,
  lockBuckets,
  readHolder,
  readOthersStanding,
} from './readLeases.ts';
import { recordExhausted } from './recordExhausted.ts';
import { openBuckets, writeLeases } from './writeLeases.ts';

export interface LeaseCall extends Omit<GrantWanted, 'wantNanoUsd'> {
  readonly bucket: BucketRef;
  /** An amount, or how it follows from the headroom that the bucket has once it is locked; undefined: unlimited. */
  readonly wantNanoUsd: NanoUsd | ((headroom: NanoUsd | undefined) => NanoUsd);
}

export interface LeaseRequest {
  /** The holder: an epoch of a producer. */
  readonly producerId: string;
  readonly epoch: string;
  /** At most one per bucket. */
  readonly calls: readonly LeaseCall[];
  readonly now: Date;
  /** By default, `STANDING_RULE`. */
  readonly standing?: StandingRule;
}

/**
 * Takes back what a proxy returns and grants what it wants, as far as each bucket's limit has headroom. Safe to repeat: all
 * amounts are cumulative, and a call whose `seq` is not newer than the last is granted nothing. The results are in the order of
 * the calls.
 */
export async function answerLeaseCalls(db: Database, request: LeaseRequest): Promise<LeaseResult[]> {
  checkCalls(request.calls);
  if (request.calls.length === 0) return [];
  const attempt = () => db.transaction().execute((tx) => answerInTransaction(tx, request));
  const results = await attempt();
  if (results) return results;
  // Outside of a transaction: an insert that waits for another one must not hold locks on buckets.
  await openBuckets(
    db,
    request.calls.map(({ bucket }) => bucket),
  );
  const retried = await attempt();
  if (!retried) throw new Error('a bucket disappeared after it was opened');
  return retried;
}

const NO_BUCKET: BucketState = { spent: 0n, leased: 0n, limit: null };

/** Undefined if a current bucket has no row yet. */
async function answerInTransaction(tx: Tx, request: LeaseRequest): Promise<LeaseResult[] | undefined> {
  // 1. From here to the commit, neither a limit nor a counter changes.
  await lockCounters(tx, 'shared');
  const current = await findCurrentBuckets(tx, request);
  // 2. Lock the buckets, by key: every change of a lease happens under its bucket's lock.
  const keys = request.calls.map((call) => bucketKey(call.bucket));
  const hasReplaced = keys.some((key) => !current.has(key));
  const newerKeys = hasReplaced ? await findNewerBuckets(tx, request, keys) : new Map<string, string>();
  const buckets = await lockBuckets(tx, [...keys, ...newerKeys.values()]);
  // 3. Read the leases and lock the epoch's row, so that it can't be closed meanwhile.
  const { leases, mayHold } = await readHolder(tx, request, keys);
  const othersStanding = await readOthersStanding(tx, request, keys);

  const changes = [];
  for (const call of request.calls) {
    const key = bucketKey(call.bucket);
    const limit = current.get(key);
    // A window that ended gets no row again: it may be folded, and no lease of it is left.
    const bucket = buckets.get(key) ?? (limit ? undefined : NO_BUCKET);
    if (!bucket) return undefined;
    const updated: BucketState = limit ? { ...bucket, limit: limit.nanoUsd } : bucket;
    const before = leases.get(key);
    const mayKeep = standingOf(
      updated.limit,
      othersStanding.get(key) ?? 0n,
      request.standing ?? STANDING_RULE,
    );
    const { wantNanoUsd: want } = call;
    const wantNanoUsd = typeof want === 'function' ? want(headroomOf(updated)) : want;
    const decided = decideGrant(
      before ?? NO_LEASE,
      updated,
      { ...call, wantNanoUsd },
      refusalOf(mayHold, limit !== undefined),
      mayKeep,
    );
    const addedHold = holdOf(decided.lease) - holdOf(before ?? NO_LEASE);
    const newerKey = newerKeys.get(key);
    const newerBucket = newerKey === undefined ? undefined : buckets.get(newerKey);
    const newer = newerKey === undefined || !newerBucket ? undefined : { ...newerBucket, key: newerKey };
    changes.push({
      key,
      newer,
      windowEnd: limit?.windowEnd ?? null,
      bucket,
      updated,
      before,
      addedHold,
      mayKeep,
      ...decided,
    });
  }
  // 4. Write the leases and what they hold.
  await writeLeases(tx, request, changes);
  // 5. Record an event for webhooks at each counter's first refusal in its window.
  const exhausted = changes
    .filter(({ outcome }) => outcome === 'exhausted')
    .map(({ key, updated }) => ({ key, ...updated }));
  await recordExhausted(tx, exhausted, request.now);
  return changes.map(({ key, updated, lease, addedHold, outcome, mayKeep }) => ({
    bucketKey: key,
    seq: lease.seq,
    grantedNanoUsd: lease.granted,
    spentNanoUsd: updated.spent,
    leasedNanoUsd: updated.leased + addedHold,
    standingNanoUsd: min(mayKeep, lease.standing),
    limitNanoUsd: updated.limit,
    outcome,
  }));
}

/** Why nothing may be granted, whatever headroom the bucket has: its epoch is closed, or it is not current any more. */
function refusalOf(mayHold: boolean, isCurrent: boolean): 'closed' | 'replaced' | undefined {
  if (!mayHold) return 'closed';
  return isCurrent ? undefined : 'replaced';
}

function checkCalls(calls: readonly LeaseCall[]): void {
  if (calls.length > MAX_BUCKETS_PER_CALL) {
    throw new Error(`answerLeaseCalls takes at most ${MAX_BUCKETS_PER_CALL} calls, not ${calls.length}`);
  }
  if (new Set(calls.map(({ bucket }) => bucketKey(bucket))).size < calls.length) {
    throw new Error('a bucket appears in two calls');
  }
  for (const { seq, returnedNanoUsd, wantNanoUsd, minimumNanoUsd, standingNanoUsd = 0n } of calls) {
    if (
      seq < 1n ||
      returnedNanoUsd < 0n ||
      standingNanoUsd < 0n ||
      minimumNanoUsd < 0n ||
      (typeof wantNanoUsd !== 'function' && wantNanoUsd < minimumNanoUsd)
    ) {
      throw new Error('a lease call needs seq ≥ 1, returned ≥ 0 and 0 ≤ minimum ≤ want');
    }
  }
}
