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
  | 'closed'
  /** The bucket is not open, and the key that names it may open no more of its limit: `others` stands in for it. */
  | 'others';

/** The state of a lease and its bucket after a call. */
export interface LeaseResult {
  readonly bucketKey: string;
  /** The `seq` of the newest call that was answered. */
  readonly seq: bigint;
  /** Cumulative: everything that this holder was ever granted of the bucket. */
  readonly grantedNanoUsd: NanoUsd;
  readonly spentNanoUsd: NanoUsd;
  /** What all leases hold in the bucket. */
  readonly leasedNanoUsd: NanoUsd;
  /** What the holder may keep of it while nothing is spent on it. */
  readonly standingNanoUsd: NanoUsd;
  /** Null: unlimited. */
  readonly limitNanoUsd: NanoUsd | null;
  readonly outcome: LeaseOutcome;
}

/** A lease's cumulative amounts, in nano-USD. */
export interface LeaseFigures {
  readonly seq: bigint;
  readonly granted: NanoUsd;
  readonly returned: NanoUsd;
  readonly settled: NanoUsd;
  /** The standing part that the holder may assume: the larger figure while a response may be lost. */
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
  /** The standing part that the holder knows of; by default 0. */
  readonly standingNanoUsd?: NanoUsd;
}

/** What a lease holds: what may still be spent on it, or is spent but not in the ledger yet. */
export function holdOf(lease: LeaseFigures): NanoUsd {
  const hold = lease.granted - lease.returned - lease.settled;
  return lease.closed || hold < 0n ? 0n : hold;
}

/** The part of the limit that is neither spent nor leased; undefined if the bucket is unlimited. */
export function headroomOf({ limit, spent, leased }: BucketState): NanoUsd | undefined {
  return limit === null ? undefined : max(limit - spent - leased, 0n);
}

/**
 * How a call changes its lease. `standing`: what it may keep from now on. `refusal` is a reason to grant nothing, whatever headroom
 * the bucket has.
 */
export function decideGrant(
  lease: LeaseFigures,
  bucket: BucketState,
  call: GrantWanted,
  refusal: 'replaced' | 'closed' | 'others' | undefined,
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

/** How much of a limit leases may keep while nothing is spent on them. */
export interface StandingRule {
  /** Each at most the limit divided by this. */
  readonly each: bigint;
  readonly eachNanoUsd: NanoUsd;
  /** All of a bucket together at most the limit divided by this. */
  readonly together: bigint;
}

/** Each 1 % or 0.25 USD, together 10 %. */
export const STANDING_RULE: StandingRule = { each: 100n, eachNanoUsd: 250_000_000n, together: 10n };

/** What a lease may keep, if the other leases of its bucket may keep `others`. */
export function standingOf(limit: NanoUsd | null, others: NanoUsd, rule: StandingRule): NanoUsd {
  if (limit === null || limit <= 0n) return 0n;
  const left = limit / rule.together - others;
  return max(min(min(limit / rule.each, rule.eachNanoUsd), left), 0n);
}

const SLICE_SECONDS = 120n;

/** The fields of a call that set its slice. */
export interface SlicedCall {
  readonly minimumNanoUsd: NanoUsd;
  /** Undefined if the proxy does not know it yet. */
  readonly burnNanoUsdPerSecond?: NanoUsd | undefined;
  /** What the proxy takes its lease to keep while nothing is spent on it; by default 0. */
  readonly standingNanoUsd?: NanoUsd;
}

/**
 * The amount to grant at once: two minutes of spend, or what the lease may keep if that is more, so that a quiet key asks once for many
 * requests; but at most half of an even share of the headroom, so that slices shrink near the limit; a quarter of that while the burn
 * rate is unknown. Never less than the minimum.
 */
export function sliceOf(
  { minimumNanoUsd: minimum, burnNanoUsdPerSecond: burn, standingNanoUsd: standing = 0n }: SlicedCall,
  headroom: NanoUsd | undefined,
  liveProxies: bigint,
): NanoUsd {
  if (minimum === 0n) return 0n;
  if (headroom === undefined) return minimum;
  const share = headroom / ((burn === undefined ? 8n : 2n) * liveProxies);
  return max(burn === undefined ? share : min(share, max(burn * SLICE_SECONDS, standing)), minimum);
}

/**
 * The result with what lost proxies may have spent of the bucket: what their leases hold counts as spent, as in the usage
 * report, since no proxy returns it.
 */
export function withUnattributed(result: LeaseResult, unattributed: NanoUsd, minimum: NanoUsd): LeaseResult {
  if (unattributed === 0n) return result;
  const counted = {
    ...result,
    spentNanoUsd: result.spentNanoUsd + unattributed,
    leasedNanoUsd: result.leasedNanoUsd - unattributed,
  };
  return isExhausted(counted, minimum) ? { ...counted, outcome: 'exhausted' } : counted;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
