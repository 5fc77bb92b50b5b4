import { create } from '@bufbuild/protobuf';
import { type BucketRef, BucketRefSchema, BudgetLease_Outcome } from '@weighbridge/contracts';
import { type BudgetedPolicy, bucketKey } from '../control/keyPolicies.ts';
import { Lease, type PersistedLease } from './lease.ts';
import { LeaseCalls, type LeaseCallsDeps } from './leaseCalls.ts';
import { type Entry, newEntry, waitForChange, wakeAll, wakeOne } from './leaseEntry.ts';
import { budgetContended, budgetExhausted, budgetUnavailable } from './refusals.ts';

export interface LeaseBookDeps extends Omit<LeaseCallsDeps, 'onAnswer' | 'firstSeq'> {
  /** How long the control plane has been silent, in milliseconds, by the larger of the monotonic and the wall clock. */
  readonly silenceMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Counts what an enforced policy would have refused, of one that is only watched. */
  readonly onShadowRefusal: (policyId: string) => void;
}

/** What an attempt holds of its leases until it is settled. */
export interface Reservation {
  readonly amountNanoUsd: bigint;
  readonly leases: readonly Lease[];
}

/** So long after the last word of the control plane a lease is valid. */
const LEASE_VALIDITY_MS = 600_000;
/** How long a request waits for room that others hold. */
const CONTENTION_WAIT_MS = 1_000;
/** How long it waits for the control plane to answer at all. */
const ANSWER_WAIT_MS = 2_500;
/** How long a refusal may rest on the figures of an earlier one. */
const FIGURES_FRESH_MS = 100;
/** Between two looks at a bucket that others hold. */
const RETRY_MS = 100;
/** How old the figures may be by which an answer's length is limited. */
const ROOM_FRESH_MS = 1_000;
/** Between two refills ahead of need. */
const REFILL_MS = 250;
/** A lease that nothing was reserved from for so long is given back. */
const IDLE_MS = 30_000;
/** Heartbeats come every second: after so long, nobody takes anything back. */
const SILENT_MS = 3_000;
/** What a recalled lease keeps: so many seconds of what it spends. */
const KEPT_SECONDS = 2n;
const SWEEP_MS = 60_000;
/** Two, since the first may bring to light what was granted and not heard of, and one for an answer that got lost. */
const CLOSE_ROUNDS = 3;
/** Longer than any clock is wrong, and any request takes. */
const KEPT_AFTER_WINDOW_MS = 3_600_000;
/** How many requests may wait for one bucket. */
const MAX_WAITING = 1_000;

/**
 * The leases of this proxy. A request reserves from every bucket of its chain or from none, in memory; it waits for the
 * control plane only where a lease does not suffice.
 *
 * A lease is kept until its window is over: its figures are cumulative, and what was said of them can't be unsaid.
 */
export class LeaseBook {
  readonly #deps: LeaseBookDeps;
  readonly #calls: LeaseCalls;
  readonly #leases = new Map<string, Entry>();
  /** Those that something was reserved from of late, or is. */
  readonly #active = new Set<Entry>();
  #isClosing = false;
  #sweptAtMs: number;

  constructor(deps: LeaseBookDeps) {
    this.#deps = deps;
    this.#calls = new LeaseCalls({
      ...deps,
      // Microseconds: no process makes more calls than that, and a later one of the same epoch begins above.
      firstSeq: BigInt(Math.floor(deps.wallMs())) * 1_000n,
      onAnswer: (lease, failure) => this.#answered(lease, failure),
    });
    this.#sweptAtMs = deps.nowMs();
  }

  /** How many buckets there are leases on. */
  get size(): number {
    return this.#leases.size;
  }

  /** Reserves at once; undefined where a lease does not suffice, and then nothing is reserved. */
  tryReserve(policies: readonly BudgetedPolicy[], amount: bigint): Reservation | undefined {
    const nowMs = this.#deps.nowMs();
    const isValid = this.#isValid;
    const entries = policies.map((policy) => this.#entryOf(policy));
    for (const [at, entry] of entries.entries()) {
      const isShort = !isValid || entry.lease.available < amount;
      if (isShort && policies[at]?.enforcement === 'enforce') return undefined;
    }
    for (const [at, entry] of entries.entries()) {
      const { lease } = entry;
      if (policies[at]?.enforcement === 'shadow') this.#watchShadow(entry, amount);
      lease.reserve(amount, nowMs);
      this.#active.add(entry);
      if (lease.isLow && nowMs - entry.refilledAtMs >= REFILL_MS) this.#refill(entry, amount, nowMs);
    }
    return { amountNanoUsd: amount, leases: entries.map((entry) => entry.lease) };
  }

  /**
   * Reserves, and waits for room where there is none: for the control plane's answer, and up to a second for what others
   * hold. Rejects with the refusal, `undefined` as the answer means that a counter was replaced or its window is over:
   * the key has to be asked for anew.
   */
  async reserve(
    policies: readonly BudgetedPolicy[],
    amount: bigint,
    knowsAll: boolean,
  ): Promise<Reservation | undefined> {
    const beganAtMs = this.#deps.nowMs();
    for (;;) {
      const reservation = this.tryReserve(policies, amount);
      if (reservation) return reservation;
      const nowMs = this.#deps.nowMs();
      const short = policies.flatMap((policy) => {
        const entry = this.#entryOf(policy);
        const isShort = !this.#isValid || entry.lease.available < amount;
        return isShort && policy.enforcement === 'enforce' ? [{ policy, entry }] : [];
      });
      for (const { policy, entry } of short) {
        const { figures } = entry.lease;
        if (!figures || figures.askedAtMs < beganAtMs - FIGURES_FRESH_MS) continue;
        if (isOver(entry.lease)) return undefined;
        if (figures.outcome === BudgetLease_Outcome.CLOSED) throw budgetUnavailable('the epoch is closed');
        if (entry.lease.available < amount && isExhausted(entry.lease, amount)) {
          throw budgetExhausted(policy, figures, knowsAll);
        }
      }
      const failed = short.find(({ entry }) => entry.failedAtMs >= beganAtMs);
      const waitedMs = nowMs - beganAtMs;
      if (failed || waitedMs >= ANSWER_WAIT_MS || short.length === 0) {
        throw budgetUnavailable(failed?.entry.failure);
      }
      // The control plane answered, and what is spent leaves room: others hold it.
      const contended = short.find(({ entry }) => isAnswered(entry.lease, beganAtMs));
      const isCrowded = short.some(({ entry }) => entry.waiting.length >= MAX_WAITING);
      if (isCrowded || (contended && waitedMs >= CONTENTION_WAIT_MS)) {
        throw budgetContended((contended ?? short[0])?.policy);
      }
      for (const { entry } of short) {
        const { figures } = entry.lease;
        if (!figures || nowMs - figures.askedAtMs >= RETRY_MS || figures.askedAtMs < beganAtMs) {
          // A debt has to be covered too, before anything is available. Nothing is missing where only its word is.
          const missing = amount - entry.lease.available;
          this.#calls.ask(entry.lease, missing > 0n ? missing : 0n);
        }
      }
      await waitForChange(
        short.map(({ entry }) => entry),
        RETRY_MS,
      );
    }
  }

  /**
   * What a request may cost at most, as the control plane saw it a second ago at the most; undefined where nothing limits
   * it, or where the control plane can't be asked. Waits up to a second for what is `useful` where only others hold it,
   * and rejects where not even the `least` of it comes back.
   */
  async headroom(
    policies: readonly BudgetedPolicy[],
    { useful, least }: { readonly useful: bigint; readonly least: bigint },
  ): Promise<bigint | undefined> {
    const enforced = policies
      .filter(({ enforcement }) => enforcement === 'enforce')
      .map((policy) => ({ policy, entry: this.#entryOf(policy) }));
    const beganAtMs = this.#deps.nowMs();
    const stale = enforced.filter(({ entry: { lease } }) => {
      return !lease.figures || beganAtMs - lease.figures.askedAtMs >= ROOM_FRESH_MS;
    });
    for (const { entry } of stale) this.#calls.ask(entry.lease, 0n);
    await Promise.all(stale.map(({ entry }) => waitForChange([entry], ANSWER_WAIT_MS)));
    for (;;) {
      const nowMs = this.#deps.nowMs();
      const rooms = enforced.flatMap(({ policy, entry }) => {
        const room = roomOf(entry.lease);
        return room ? [{ policy, entry, ...room }] : [];
      });
      const free = smallest(rooms.map((each) => each.free));
      if (free === undefined || free >= useful) return free;
      const held = rooms.filter(({ free, atRest }) => free < (atRest < useful ? atRest : useful));
      const isRefused = rooms.some(({ entry, atRest }) => atRest < least || isOver(entry.lease));
      const isUnanswered = enforced.some(({ entry }) => entry.failedAtMs >= beganAtMs);
      // What is spent leaves no room, or nobody answers: reserving it says so.
      if (held.length === 0 || isRefused || isUnanswered) return free;
      const isCrowded = held.some(({ entry }) => entry.waiting.length >= MAX_WAITING);
      if (isCrowded || nowMs - beganAtMs >= CONTENTION_WAIT_MS) {
        if (free >= least) return free;
        throw budgetContended(held.find((each) => each.free < least)?.policy);
      }
      for (const { entry, atRest } of held) {
        const { lease } = entry;
        if (lease.figures && nowMs - lease.figures.askedAtMs < RETRY_MS) continue;
        const missing = (atRest < useful ? atRest : useful) - lease.available;
        this.#calls.ask(lease, missing > 0n ? missing : 0n);
      }
      await waitForChange(
        held.map(({ entry }) => entry),
        RETRY_MS,
      );
    }
  }

  /** Ends a reservation with what the attempt cost. */
  settle({ leases, amountNanoUsd }: Reservation, actual: bigint): void {
    for (const lease of leases) {
      lease.settle(amountNanoUsd, actual);
      const entry = this.#leases.get(bucketKey(lease.bucket));
      if (entry) wakeOne(entry);
    }
  }

  /** Others need room: what is idle goes back. */
  reclaim(buckets: readonly BucketRef[]): void {
    for (const bucket of buckets) {
      const entry = this.#leases.get(bucketKey(bucket));
      if (!entry) continue;
      // Where requests wait here too, what is there does not suffice for any of them.
      const isShort = entry.waiting.length > 0;
      this.#giveBack(entry.lease, isShort ? 0n : (entry.lease.burnPerSecond ?? 0n) * KEPT_SECONDS);
    }
  }

  /** To be called each second: measures what is spent, and gives back what lies idle. */
  everySecond(): void {
    const nowMs = this.#deps.nowMs();
    // Without the control plane it is all that there is to spend.
    const canGiveBack = this.#deps.silenceMs() < SILENT_MS;
    for (const entry of this.#active) {
      const { lease } = entry;
      lease.measureBurn();
      if (!canGiveBack) continue;
      if (!isOver(lease) && nowMs - lease.reservedAtMs < IDLE_MS) continue;
      this.#giveBack(lease, 0n);
      if (!lease.isSettled) continue;
      this.#active.delete(entry);
      if (isOver(lease) && !isNearEdge(entry, this.#deps.wallMs())) {
        this.#leases.delete(bucketKey(lease.bucket));
      }
    }
    if (nowMs - this.#sweptAtMs >= SWEEP_MS) this.#sweep(nowMs);
  }

  /** What an earlier process held in the same epoch. */
  restore(kept: readonly PersistedLease[]): void {
    for (const one of kept) {
      const [policyId, counterVersion, subject, windowStartMs] = one.bucket;
      const bucket = create(BucketRefSchema, {
        policyId,
        counterVersion,
        subject,
        windowStartMs: BigInt(windowStartMs),
      });
      const entry = newEntry(new Lease(bucket, one), undefined);
      this.#leases.set(bucketKey(bucket), entry);
      this.#active.add(entry);
    }
  }

  /** What a later process of the same epoch may go on with. To be called when nothing is reserved. */
  toPersisted(): PersistedLease[] {
    return [...this.#leases.values()].map(({ lease }) => lease.toPersisted());
  }

  /** Gives everything back that is not reserved; resolves when the control plane knows, or could not be told. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (let round = 0; round < CLOSE_ROUNDS; round++) {
      for (const { lease } of this.#leases.values()) this.#giveBack(lease, 0n);
      await this.#calls.idle();
    }
  }

  /** The control plane was heard of not too long ago. */
  get #isValid(): boolean {
    return this.#deps.silenceMs() < LEASE_VALIDITY_MS;
  }

  #entryOf(policy: BudgetedPolicy): Entry {
    const known = this.#leases.get(policy.bucketKey);
    if (known) return known;
    const entry = newEntry(new Lease(policy.bucket), policy.windowEndMs);
    this.#leases.set(policy.bucketKey, entry);
    return entry;
  }

  #refill(entry: Entry, amount: bigint, nowMs: number): void {
    if (this.#isClosing) return;
    entry.refilledAtMs = nowMs;
    this.#calls.ask(entry.lease, amount);
  }

  /** A policy that is only watched refuses nothing, and counts what it would have refused. */
  #watchShadow(entry: Entry, amount: bigint): void {
    const { lease } = entry;
    if (lease.available >= amount) return;
    if (isExhausted(lease, amount)) this.#deps.onShadowRefusal(lease.bucket.policyId);
    const nowMs = this.#deps.nowMs();
    if (nowMs - entry.refilledAtMs >= REFILL_MS) this.#refill(entry, amount, nowMs);
  }

  #answered(lease: Lease, failure: unknown): void {
    const entry = this.#leases.get(bucketKey(lease.bucket));
    if (!entry) return;
    if (failure !== undefined) {
      entry.failure = failure;
      entry.failedAtMs = this.#deps.nowMs();
    }
    // What an unanswered call had granted comes to light with the next.
    if (!lease.isSettled) this.#active.add(entry);
    wakeAll(entry);
  }

  /** A window ends while nobody spends in it: what is kept of its lease goes some time later. */
  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    const wallMs = this.#deps.wallMs();
    for (const [key, { lease, windowEndMs }] of this.#leases) {
      const isPast = windowEndMs !== undefined && windowEndMs + KEPT_AFTER_WINDOW_MS < wallMs;
      if (isPast && lease.isSettled) this.#leases.delete(key);
    }
  }

  #giveBack(lease: Lease, keep: bigint): void {
    if (lease.giveBack(keep) || lease.isUnsure) this.#calls.ask(lease, 0n);
  }
}

/** Control planes whose clocks differ may call a window over and, a moment later, current: what it used must stay known. */
function isNearEdge({ lease, windowEndMs }: Entry, wallMs: number): boolean {
  const edges = [Number(lease.bucket.windowStartMs), windowEndMs ?? Number.POSITIVE_INFINITY];
  return edges.some((edge) => Math.abs(wallMs - edge) < KEPT_AFTER_WINDOW_MS);
}

function isOver({ figures }: Lease): boolean {
  return figures?.outcome === BudgetLease_Outcome.OVER;
}

function isExhausted({ figures }: Lease, amount: bigint): boolean {
  return figures?.limitNanoUsd !== undefined && figures.spentNanoUsd + amount > figures.limitNanoUsd;
}

/** What of a bucket's limit nobody else has, and what that will be when nobody holds anything. */
function roomOf(lease: Lease): { readonly free: bigint; readonly atRest: bigint } | undefined {
  const { figures, available } = lease;
  if (figures?.limitNanoUsd === undefined) return undefined;
  const atRest = figures.limitNanoUsd - figures.spentNanoUsd;
  const unleased = atRest - figures.leasedNanoUsd;
  return { free: available > 0n ? unleased + available : unleased, atRest };
}

function smallest(amounts: readonly bigint[]): bigint | undefined {
  return amounts.reduce<bigint | undefined>(
    (least, amount) => (least === undefined || amount < least ? amount : least),
    undefined,
  );
}

function isAnswered({ figures }: Lease, sinceMs: number): boolean {
  return figures !== undefined && figures.askedAtMs >= sinceMs;
}
