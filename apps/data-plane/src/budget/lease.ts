import type { BucketRef, BudgetLease } from '@weighbridge/contracts';

/** What the control plane last said of a bucket, beyond what it granted. */
export interface BucketFigures {
  readonly limitNanoUsd: bigint | undefined;
  readonly spentNanoUsd: bigint;
  readonly leasedNanoUsd: bigint;
  readonly outcome: BudgetLease['outcome'];
  /** When the call was sent that this answers, monotonic, in milliseconds. */
  readonly askedAtMs: number;
}

/** A lease as it is written down. */
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
}

/** Of each second's spending, so much of what is known stays. */
const BURN_MEMORY = 0.8;

/**
 * This proxy's lease on one bucket: what it may spend without asking. All money is nano-USD. What is granted, returned
 * and used only ever grows; what is reserved goes down to nothing when nothing is under way. What is available may be
 * negative: an attempt that cost more than it reserved is a debt, which the next grants pay first.
 */
export class Lease {
  readonly bucket: BucketRef;
  figures: BucketFigures | undefined;
  /** When something was last reserved, monotonic, in milliseconds. */
  reservedAtMs = Number.NEGATIVE_INFINITY;
  #granted = 0n;
  #returned = 0n;
  #used = 0n;
  #reserved = 0n;
  /** What of the returned the control plane is known to have heard. */
  #returnHeard = 0n;
  /** A call was not answered: it may have granted something all the same. */
  #mayHaveMore = false;
  #lastGrant = 0n;
  #burn: number | undefined;
  #usedBefore = 0n;

  constructor(bucket: BucketRef, kept?: PersistedLease) {
    this.bucket = bucket;
    if (!kept) return;
    this.#granted = BigInt(kept.granted);
    this.#returned = BigInt(kept.returned);
    this.#used = BigInt(kept.used);
    // What was said and not answered may have been heard, and granted.
    this.#mayHaveMore = true;
  }

  /** To go on with it in another process, while nothing of it is reserved. */
  toPersisted(): PersistedLease {
    const { policyId, counterVersion, subject, windowStartMs } = this.bucket;
    return {
      bucket: [policyId, counterVersion, subject, String(windowStartMs)],
      granted: String(this.#granted),
      returned: String(this.#returned),
      used: String(this.#used),
    };
  }

  get available(): bigint {
    return this.#granted - this.#returned - this.#used - this.#reserved;
  }

  get reserved(): bigint {
    return this.#reserved;
  }

  get returned(): bigint {
    return this.#returned;
  }

  /** The control plane has yet to hear of what was given back, or this proxy of what it was granted. */
  get isUnsure(): boolean {
    return this.#returnHeard < this.#returned || this.#mayHaveMore;
  }

  /** Nothing is held here, and both sides know it. */
  get isSettled(): boolean {
    return this.#reserved === 0n && this.available <= 0n && !this.isUnsure;
  }

  /** Little is left of the newest grant, so that it is time to ask for the next. */
  get isLow(): boolean {
    return this.available < this.#lastGrant / 2n;
  }

  /** Nano-USD a second, smoothed; undefined before anything was used. */
  get burnPerSecond(): bigint | undefined {
    return this.#burn === undefined ? undefined : BigInt(Math.ceil(this.#burn));
  }

  reserve(amount: bigint, nowMs: number): void {
    this.#reserved += amount;
    this.reservedAtMs = nowMs;
  }

  /** Ends a reservation with what the attempt really cost. */
  settle(reserved: bigint, actual: bigint): void {
    this.#reserved -= reserved;
    if (this.#reserved < 0n) throw new Error('more was released than reserved');
    this.#used += actual;
  }

  /** Takes in a grant. It is cumulative: an answer that comes late or twice changes nothing. */
  grant(grantedInAll: bigint): void {
    if (grantedInAll <= this.#granted) return;
    this.#lastGrant = grantedInAll - this.#granted;
    this.#granted = grantedInAll;
  }

  /** The control plane answered a call that told it of so much. */
  returnHeard(returned: bigint): void {
    if (returned > this.#returnHeard) this.#returnHeard = returned;
    this.#mayHaveMore = false;
  }

  callFailed(): void {
    this.#mayHaveMore = true;
  }

  /** Gives back what is available beyond `keep`; false where there is nothing to give. */
  giveBack(keep: bigint): boolean {
    const idle = this.available - keep;
    if (idle <= 0n) return false;
    this.#returned += idle;
    return true;
  }

  /** To be called each second, so that the burn follows what is used. */
  measureBurn(): void {
    const used = Number(this.#used - this.#usedBefore);
    this.#usedBefore = this.#used;
    if (this.#burn === undefined && used === 0) return;
    this.#burn = this.#burn === undefined ? used : this.#burn * BURN_MEMORY + used * (1 - BURN_MEMORY);
  }
}
