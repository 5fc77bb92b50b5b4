import { type BucketRef, type CountUnit, unitOf } from '../bucketRef.ts';
import type { LeaseOutcome } from '../decision/decideGrant.ts';
import { isExhausted } from '../isExhausted.ts';

/** The control plane's latest figures of a bucket, beyond its grant: nano-USD, or what else the bucket counts. */
export interface BucketFigures {
  /** Undefined: unlimited. */
  readonly limitNanoUsd: bigint | undefined;
  readonly spentNanoUsd: bigint;
  readonly leasedNanoUsd: bigint;
  readonly outcome: LeaseOutcome;
  /** When the call was sent that returned them, monotonic, in milliseconds. */
  readonly askedAtMs: number;
}

/** A lease in the spool; amounts are nano-USD, or what else the bucket counts. */
export interface PersistedLease {
  readonly bucket: readonly [
    policyId: string,
    counterVersion: number,
    subject: string,
    windowStartMs: string,
  ];
  readonly granted: string;
  readonly returned: string;
  readonly used: string;
  /** What it may keep while nothing is spent on it; absent: nothing. */
  readonly standing?: string;
}

/** How long a bucket that a key may not open is not asked for again: its limit may have been raised since. */
const CLOSED_MS = 10_000;
/** The weight of the past in the smoothed spending rate. */
const BURN_MEMORY = 0.8;

/**
 * This proxy's lease on one bucket: what it may spend without asking. All amounts are nano-USD, or requests or tokens. Granted, returned and used
 * only grow; reserved falls to 0 when no attempt is running. Available may be negative: an attempt that cost more than its
 * reservation leaves a debt, which the next grants pay first.
 */
export class Lease {
  readonly bucket: BucketRef;
  /** What the bucket counts; undefined: nano-USD. */
  readonly unit: CountUnit | undefined;
  /** The key whose request named it last, if keys may open only so many buckets of its limit. */
  keyId: string | undefined;
  /** The keys that may not open it, and since when; undefined: none is known. */
  #closedTo: Map<string, number> | undefined;
  figures: BucketFigures | undefined;
  /** When something was last reserved, monotonic, in milliseconds. */
  reservedAtMs = Number.NEGATIVE_INFINITY;
  /** Reservations that are not settled. A reservation of 0 may still be charged. */
  #open = 0;
  #granted = 0n;
  #returned = 0n;
  #used = 0n;
  #reserved = 0n;
  /** What is left of these: granted - returned - used - reserved. Each request asks several times. */
  #available = 0n;
  /** The part of `#returned` that the control plane has acknowledged. */
  #returnAcked = 0n;
  /** A call got no response, and may have granted more. */
  #mayHoldMore = false;
  #halfOfLastGrant = 0n;
  #standing = 0n;
  #halfOfStanding = 0n;
  #burn: number | undefined;
  /** Nano-USD since the last measurement; a number, which costs less than a bigint for thousands of leases. */
  #usedSince = 0;

  constructor(bucket: BucketRef, persisted?: PersistedLease) {
    this.bucket = bucket;
    this.unit = unitOf(bucket);
    if (!persisted) return;
    this.#granted = BigInt(persisted.granted);
    this.#returned = BigInt(persisted.returned);
    this.#used = BigInt(persisted.used);
    this.#available = this.#granted - this.#returned - this.#used;
    this.standing = BigInt(persisted.standing ?? 0);
    // The last calls of the earlier process may have been answered after it ended.
    this.#mayHoldMore = true;
  }

  /** Goes on from the figures of a lease that was at rest, which the control plane therefore knows. */
  static remembered(bucket: BucketRef, figures: Omit<PersistedLease, 'bucket'>, reservedAtMs: number): Lease {
    const lease = new Lease(bucket);
    lease.#granted = BigInt(figures.granted);
    lease.#returned = BigInt(figures.returned);
    lease.#returnAcked = lease.#returned;
    lease.#used = BigInt(figures.used);
    lease.#available = lease.#granted - lease.#returned - lease.#used;
    lease.standing = BigInt(figures.standing ?? 0);
    lease.reservedAtMs = reservedAtMs;
    return lease;
  }

  /** For a later process of the same epoch; nothing may be reserved. */
  toPersisted(): PersistedLease {
    const { policyId, counterVersion, subject, windowStartMs } = this.bucket;
    return {
      bucket: [policyId, counterVersion, subject, String(windowStartMs)],
      granted: String(this.#granted),
      returned: String(this.#returned),
      used: String(this.#used),
      ...(this.standing > 0n && { standing: String(this.standing) }),
    };
  }

  /** What it may keep while nothing is spent on it, as the control plane last said. */
  get standing(): bigint {
    return this.#standing;
  }

  set standing(standing: bigint) {
    this.#standing = standing;
    this.#halfOfStanding = standing / 2n;
  }

  get available(): bigint {
    return this.#available;
  }

  get reserved(): bigint {
    return this.#reserved;
  }

  get returned(): bigint {
    return this.#returned;
  }

  /** The control plane reported that the next window, or a newer counter of the policy, replaced the bucket. */
  get isReplaced(): boolean {
    return this.figures?.outcome === 'replaced';
  }

  /** The control plane reported just now that this key may open no more buckets of its limit, and no other key has opened it since. */
  isClosedTo(keyId: string, nowMs: number): boolean {
    const sinceMs = this.#closedTo?.get(keyId);
    return sinceMs !== undefined && nowMs - sinceMs < CLOSED_MS;
  }

  /** Nothing of it was ever granted or used: a new lease is the same. */
  get isUnused(): boolean {
    return this.#granted === 0n && this.#used === 0n;
  }

  /** The figures of a call that a key had named it in. Once it is open, it is so for every key. */
  answered(figures: BucketFigures, keyId: string | undefined): void {
    this.figures = figures;
    if (keyId === undefined) return;
    if (figures.outcome !== 'others') this.#closedTo = undefined;
    else this.#closedTo = (this.#closedTo ?? new Map()).set(keyId, figures.askedAtMs);
  }

  /** As far as is known here. */
  isExhaustedFor(amount: bigint): boolean {
    return this.figures !== undefined && isExhausted(this.figures, amount);
  }

  /** A return is not acknowledged yet, or a grant may be unknown here. */
  get isUncertain(): boolean {
    return this.#returnAcked < this.#returned || this.#mayHoldMore;
  }

  /** Nothing is held here, and the control plane knows it. */
  get isEmpty(): boolean {
    return this.restsAt(0n);
  }

  /** No more than this is held here, nothing runs on it, and the control plane knows it. */
  restsAt(kept: bigint): boolean {
    return this.#open === 0 && this.available <= kept && !this.isUncertain;
  }

  /** Less than half of the last grant is left, or of its standing part: time to ask for more. */
  get isLow(): boolean {
    return this.#available < this.#halfOfLastGrant || this.#available < this.#halfOfStanding;
  }

  /** Nano-USD a second, smoothed; undefined before anything was used. */
  get burnPerSecond(): bigint | undefined {
    return this.#burn === undefined ? undefined : BigInt(Math.ceil(this.#burn));
  }

  reserve(amount: bigint, nowMs: number): void {
    this.#reserved += amount;
    this.#available -= amount;
    this.#open++;
    this.reservedAtMs = nowMs;
  }

  /** Ends a reservation with the attempt's cost. */
  settle(reserved: bigint, actual: bigint): void {
    this.#reserved -= reserved;
    this.#open--;
    if (this.#reserved < 0n) throw new Error('more was released than reserved');
    this.#used += actual;
    this.#available += reserved - actual;
    this.#usedSince += Number(actual);
  }

  /** Takes the cumulative grant; a late or repeated response changes nothing. */
  grant(totalGranted: bigint): void {
    if (totalGranted <= this.#granted) return;
    const grant = totalGranted - this.#granted;
    this.#halfOfLastGrant = grant / 2n;
    this.#available += grant;
    this.#granted = totalGranted;
  }

  /** The control plane answered a call that reported this cumulative return. */
  callAnswered(returned: bigint): void {
    if (returned > this.#returnAcked) this.#returnAcked = returned;
    this.#mayHoldMore = false;
  }

  callFailed(): void {
    this.#mayHoldMore = true;
  }

  /** Returns what is available beyond `retained`; false if there is nothing to return. */
  returnBeyond(retained: bigint): boolean {
    const idle = this.available - retained;
    if (idle <= 0n) return false;
    this.#returned += idle;
    this.#available -= idle;
    return true;
  }

  /** As `returnBeyond`, since nothing is spent. It is low again at half of its standing part, whatever the last grant was. */
  returnIdle(kept: bigint): boolean {
    if (!this.returnBeyond(kept)) return false;
    this.#halfOfLastGrant = 0n;
    return true;
  }

  /** Updates the spending rate; call it each second. */
  measureBurn(): void {
    const used = this.#usedSince;
    this.#usedSince = 0;
    if (this.#burn === undefined && used === 0) return;
    this.#burn = this.#burn === undefined ? used : this.#burn * BURN_MEMORY + used * (1 - BURN_MEMORY);
  }
}
