import {
  type BucketRef,
  type BucketState,
  bucketKey,
  decideGrant,
  type GrantWanted,
  headroomOf,
  holdOf,
  type LeaseOutcome,
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
import { type MissingBucket, openBuckets } from './openBuckets.ts';
import { lockBuckets, type ReadCall, type ReadCalls, readLeaseCalls } from './readLeases.ts';
import { recordExhausted } from './recordExhausted.ts';
import { type LeaseChange, writeLeases } from './writeLeases.ts';

export interface LeaseCall extends Omit<GrantWanted, 'wantNanoUsd'> {
  readonly bucket: BucketRef;
  /** An amount, or how it follows from the headroom that the bucket has; undefined: unlimited. */
  readonly wantNanoUsd: NanoUsd | ((headroom: NanoUsd | undefined) => NanoUsd);
  /** The key that names a bucket of a value: it may open so many of a further limit. */
  readonly keyId?: string;
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

/** The first may find that what it read has changed. The second locks the buckets first; then only the epoch can end meanwhile. */
const MAX_TRIES = 4;

/**
 * Takes back what a proxy returns and grants what it wants, as far as each bucket's limit has headroom. Safe to repeat: all
 * amounts are cumulative, and a call whose `seq` is not newer than the last is granted nothing. The results are in the order of
 * the calls.
 */
export async function answerLeaseCalls(db: Database, request: LeaseRequest): Promise<LeaseResult[]> {
  checkCalls(request.calls);
  if (request.calls.length === 0) return [];
  let lockFirst: readonly string[] = [];
  const unopened = new Set<string>();
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      return await db
        .transaction()
        .execute((tx) => answerInTransaction(tx, request, { lockFirst, unopened }));
    } catch (error) {
      if (error instanceof ReadingOutdated) lockFirst = error.buckets;
      // Outside of a transaction: an insert that waits for another one must not hold locks on buckets.
      else if (error instanceof BucketsMissing)
        for (const key of await openBuckets(db, error.missing)) unopened.add(key);
      else throw error;
    }
  }
  throw new Error(`leases changed ${MAX_TRIES} times while a call was answered`);
}

/** Current buckets have no row yet. */
class BucketsMissing extends Error {
  readonly missing: readonly MissingBucket[];

  constructor(missing: readonly MissingBucket[]) {
    super('buckets have no row');
    this.missing = missing;
  }
}

/** Something that a call is decided by changed after it was read. Nothing is written. */
class ReadingOutdated extends Error {
  readonly buckets: readonly string[];

  constructor(buckets: readonly string[]) {
    super('what was read has changed');
    this.buckets = buckets;
  }
}

/** Other writers wait for the buckets only from its last statement to the commit, unless they are locked first. */
async function answerInTransaction(
  tx: Tx,
  request: LeaseRequest,
  /** `unopened`: buckets that their keys may not open. */
  { lockFirst, unopened }: { readonly lockFirst: readonly string[]; readonly unopened: ReadonlySet<string> },
): Promise<LeaseResult[]> {
  // 1. From here to the commit, neither a limit nor a counter changes.
  await lockCounters(tx, 'shared');
  await lockBuckets(tx, lockFirst);
  // 2. Read, and decide by it.
  const read = await readLeaseCalls(tx, request);
  const missing = request.calls.flatMap(({ bucket, keyId = '' }, at) => {
    const { current, bucket: row, key = '' } = read.calls[at] ?? {};
    const isMissing = read.mayHold && current && !row && !unopened.has(key);
    return isMissing ? [{ bucket, keyId, maxCounters: current.maxCounters }] : [];
  });
  if (missing.length > 0) throw new BucketsMissing(missing);
  const changes = read.calls.map((one, at) => decide(one, request.calls[at], read, request));
  // 3. Record an event for webhooks at each counter's first refusal in its window.
  const exhausted = changes
    .filter(({ outcome }) => outcome === 'exhausted')
    .map(({ key, updated }) => ({ key, ...updated }));
  await recordExhausted(tx, exhausted, request.now);
  // 4. Lock the buckets; if all is as it was read, write the leases and what they hold.
  const written = await writeLeases(tx, request, read, changes);
  if (!written)
    throw new ReadingOutdated(changes.flatMap(({ key, newer }) => (newer ? [key, newer.key] : [key])));
  return changes.map(({ key, updated, leased, lease, outcome, mayKeep }) => ({
    bucketKey: key,
    seq: lease.seq,
    grantedNanoUsd: lease.granted,
    spentNanoUsd: updated.spent,
    leasedNanoUsd: leased,
    standingNanoUsd: min(mayKeep, lease.standing),
    limitNanoUsd: updated.limit,
    outcome,
  }));
}

const NO_BUCKET: BucketState = { spent: 0n, leased: 0n, limit: null };

interface DecidedChange extends LeaseChange {
  /** The bucket with the policy's current limit, as if all was merged. */
  readonly updated: BucketState;
  /** What all leases hold in it after the change, likewise. */
  readonly leased: NanoUsd;
  readonly mayKeep: NanoUsd;
  readonly outcome: LeaseOutcome;
}

function decide(
  { key, current, bucket, lease: before, appended, newer, othersStanding }: ReadCall,
  call: LeaseCall | undefined,
  { mayHold }: ReadCalls,
  { standing = STANDING_RULE }: LeaseRequest,
): DecidedChange {
  if (!call) throw new Error('a lease was read that no call is for');
  // A window that ended gets no row again: it may be folded, and no lease of it is left.
  const state = bucket ?? NO_BUCKET;
  const updated: BucketState = current ? { ...state, limit: current.nanoUsd } : state;
  const mayKeep = standingOf(updated.limit, othersStanding, standing);
  const { wantNanoUsd: want } = call;
  const wantNanoUsd = typeof want === 'function' ? want(headroomOf(updated)) : want;
  const unmerged = before ?? NO_LEASE;
  const merged = { ...unmerged, settled: unmerged.settled + appended };
  const refusal = refusalOf(mayHold, current !== undefined, bucket !== undefined);
  const { lease: after, outcome } = decideGrant(merged, updated, { ...call, wantNanoUsd }, refusal, mayKeep);
  const lease = { ...after, settled: unmerged.settled };
  return {
    ...{ key, newer, bucket, updated, before, lease, outcome, mayKeep },
    limit: updated.limit,
    windowEnd: current?.windowEnd ?? null,
    leased: updated.leased + holdOf(after) - holdOf(merged),
    addedHold: holdOf(lease) - holdOf(unmerged),
    // Nothing is known of it, and nothing can be granted.
    isOpened: before === undefined && refusal === undefined,
  };
}

/**
 * Why nothing may be granted, whatever headroom the bucket has: its epoch is closed, it is not current any more, or its key may not open
 * it.
 */
function refusalOf(
  mayHold: boolean,
  isCurrent: boolean,
  isOpen: boolean,
): 'closed' | 'replaced' | 'others' | undefined {
  if (!mayHold) return 'closed';
  if (!isCurrent) return 'replaced';
  return isOpen ? undefined : 'others';
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
