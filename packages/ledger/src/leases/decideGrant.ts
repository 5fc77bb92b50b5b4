import type { NanoUsd } from '@weighbridge/domain';

/** What came of a call. The first two granted something, or were not asked to. */
export type LeaseOutcome =
  | 'granted'
  /** Less than was wanted, and at least the minimum. */
  | 'partly'
  /** Spent and the minimum exceed the limit: nothing will come before the window ends or the limit is raised. */
  | 'exhausted'
  /** The minimum would fit but for what leases hold: some of it may come back. */
  | 'contended'
  /** This call, or a later one, was answered before. */
  | 'repeated'
  /** The bucket is not its policy's current one: another counter was started, or another window. */
  | 'stale'
  /** The epoch is closed, superseded, lost or unknown. */
  | 'closed';

/** A lease's cumulative figures, in nano-USD. */
export interface LeaseFigures {
  readonly seq: bigint;
  readonly granted: NanoUsd;
  readonly returned: NanoUsd;
  readonly settled: NanoUsd;
  readonly closed: boolean;
}

export const NO_LEASE: LeaseFigures = { seq: 0n, granted: 0n, returned: 0n, settled: 0n, closed: false };

export interface BucketState {
  readonly spent: NanoUsd;
  readonly leased: NanoUsd;
  /** Null: unlimited. */
  readonly limit: NanoUsd | null;
}

export interface GrantWanted {
  readonly seq: bigint;
  /** Cumulative: all that the holder has ever given back of this lease. */
  readonly returnedNanoUsd: NanoUsd;
  readonly wantNanoUsd: NanoUsd;
  /** A smaller grant is of no use to the holder. */
  readonly minimumNanoUsd: NanoUsd;
}

/** What a lease holds: what may still be spent on it, or was spent without the ledger having it. */
export function holdOf(lease: LeaseFigures): NanoUsd {
  const hold = lease.granted - lease.returned - lease.settled;
  return lease.closed || hold < 0n ? 0n : hold;
}

/**
 * How a call changes its lease. Pure: the caller holds the bucket's lock.
 * `refusal` is why this holder gets nothing from this bucket, whatever room there is.
 */
export function decideGrant(
  lease: LeaseFigures,
  room: BucketState,
  call: GrantWanted,
  refusal: 'stale' | 'closed' | undefined,
): { readonly lease: LeaseFigures; readonly outcome: LeaseOutcome } {
  if (lease.closed) return { lease, outcome: 'closed' };
  // Returns count whenever they come, each once: they are cumulative, and nobody returns more than was granted.
  const returned = min(max(lease.returned, call.returnedNanoUsd), lease.granted);
  const after = { ...lease, returned, seq: max(lease.seq, call.seq) };
  if (refusal) return { lease: after, outcome: refusal };
  if (call.seq <= lease.seq) return { lease: after, outcome: 'repeated' };
  if (call.wantNanoUsd === 0n) return { lease: after, outcome: 'granted' };
  const leased = room.leased - (holdOf(lease) - holdOf(after));
  const free = room.limit === null ? call.wantNanoUsd : room.limit - room.spent - leased;
  if (free < call.minimumNanoUsd || free <= 0n) {
    const exhausted = room.limit !== null && room.spent + max(call.minimumNanoUsd, 1n) > room.limit;
    return { lease: after, outcome: exhausted ? 'exhausted' : 'contended' };
  }
  const slice = min(call.wantNanoUsd, free);
  const outcome = slice < call.wantNanoUsd ? 'partly' : 'granted';
  return { lease: { ...after, granted: after.granted + slice }, outcome };
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
