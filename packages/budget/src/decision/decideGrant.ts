import type { NanoUsd } from '@weighbridge/domain';
import { isExhausted } from '../isExhausted.ts';

/** The outcome of a lease call. With the first two, it was granted something or wanted nothing. */
export type LeaseOutcome =
  | 'granted'
  /** Less than wanted, and at least the minimum. */
  | 'partly'
  /** Spent plus minimum exceeds the limit: nothing is granted until the window ends or the limit is raised. */
  | 'exhausted'
  /** The minimum would fit without what leases hold, some of which may be returned. */
  | 'contended'
  /** This call or a later one was already answered. */
  | 'repeated'
  /** The bucket is not of its policy's current window and counter: the next one replaced it. */
  | 'replaced'
  /** The holder's epoch is closed, superseded, lost or unknown. */
  | 'closed';

/** A lease's cumulative amounts, in nano-USD. */
export interface LeaseFigures {
  readonly seq: bigint;
  readonly granted: NanoUsd;
  readonly returned: NanoUsd;
  readonly settled: NanoUsd;
  /** What its holder may take it to keep while nothing is spent on it: as long as an answer may be lost, the larger figure. */
  readonly standing: NanoUsd;
  readonly closed: boolean;
}

export const NO_LEASE: LeaseFigures = {
  seq: 0n,
  granted: 0n,
  returned: 0n,
  settled: 0n,
  standing: 0n,
  closed: false,
};

export interface BucketState {
  readonly spent: NanoUsd;
  readonly leased: NanoUsd;
  /** Null: unlimited. */
  readonly limit: NanoUsd | null;
}

export interface GrantWanted {
  readonly seq: bigint;
  /** Cumulative: everything that the holder ever returned of this lease. */
  readonly returnedNanoUsd: NanoUsd;
  readonly wantNanoUsd: NanoUsd;
  /** A smaller grant is useless to the holder. */
  readonly minimumNanoUsd: NanoUsd;
  /** What the holder takes its lease to keep while nothing is spent on it; by default nothing. */
  readonly standingNanoUsd?: NanoUsd;
}

/** What a lease holds: what may still be spent on it, or is spent but not in the ledger yet. */
export function holdOf(lease: LeaseFigures): NanoUsd {
  const hold = lease.granted - lease.returned - lease.settled;
  return lease.closed || hold < 0n ? 0n : hold;
}

/**
 * How a call changes its lease. `standing`: what it may keep from now on. `refusal` is a reason to grant nothing, whatever headroom
 * the bucket has.
 */
export function decideGrant(
  lease: LeaseFigures,
  bucket: BucketState,
  call: GrantWanted,
  refusal: 'replaced' | 'closed' | undefined,
  standing: NanoUsd,
): { readonly lease: LeaseFigures; readonly outcome: LeaseOutcome } {
  if (lease.closed) return { lease: { ...lease, standing: 0n }, outcome: 'closed' };
  // Returns always count, and once, since they are cumulative. They never exceed what was granted.
  const returned = min(max(lease.returned, call.returnedNanoUsd), lease.granted);
  const seq = max(lease.seq, call.seq);
  if (refusal) return { lease: { ...lease, returned, seq, standing: 0n }, outcome: refusal };
  const isNewer = call.seq > lease.seq;
  const after = {
    ...lease,
    returned,
    seq,
    standing: isNewer ? max(standing, call.standingNanoUsd ?? 0n) : lease.standing,
  };
  if (!isNewer) return { lease: after, outcome: 'repeated' };
  if (call.wantNanoUsd === 0n) return { lease: after, outcome: 'granted' };
  const leased = bucket.leased - (holdOf(lease) - holdOf(after));
  const headroom = bucket.limit === null ? call.wantNanoUsd : bucket.limit - bucket.spent - leased;
  if (headroom < call.minimumNanoUsd || headroom <= 0n) {
    const outcome = isExhausted(
      { limitNanoUsd: bucket.limit, spentNanoUsd: bucket.spent },
      max(call.minimumNanoUsd, 1n),
    )
      ? 'exhausted'
      : 'contended';
    return { lease: after, outcome };
  }
  const slice = min(call.wantNanoUsd, headroom);
  const outcome = slice < call.wantNanoUsd ? 'partly' : 'granted';
  return { lease: { ...after, granted: after.granted + slice }, outcome };
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
