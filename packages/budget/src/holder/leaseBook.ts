import { type BucketRef, OTHERS_SUBJECT } from '../bucketRef.ts';
import type { BudgetedPolicy } from '../policies.ts';
import { budgetContended, budgetExhausted, budgetUnavailable, type RefusedRequest } from './budgetErrors.ts';
import type { Lease, PersistedLease } from './lease.ts';
import { LeaseCalls, type LeaseCallsDeps } from './leaseCalls.ts';
import { type LeaseEntry, waitForChange, wakeAll, wakeOne } from './leaseEntry.ts';
import { LeaseTable } from './leaseTable.ts';
import { ANSWER_WAIT_MS, isCrowded, LeaseWait, type Shortage } from './leaseWait.ts';

export interface LeaseBookDeps extends Omit<LeaseCallsDeps, 'onAnswer' | 'firstSeq'> {
  /** Time since the last contact with the control plane, in milliseconds, by the monotonic or the wall clock, whichever shows more. */
  readonly silenceMs: () => number;
  /** Heartbeats arrive from the control plane. */
  readonly isLive: () => boolean;
  /** The control plane's clock as known here, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** A shadow policy would have refused a request. */
  readonly onShadowRefusal: (policyId: string) => void;
}

/** The budget that an attempt holds until it is settled. */
export interface Reservation {
  readonly amountNanoUsd: bigint;
  /** Each stays in the table while something is reserved from its lease. */
  readonly entries: readonly LeaseEntry[];
}

/** The buckets that a reservation is from, in the order of the policies. */
export function bucketsOf({ entries }: Reservation): BucketRef[] {
  return entries.map(({ lease }) => lease.bucket);
}

/** How long leases stay valid without contact with the control plane. */
const LEASE_VALIDITY_MS = 600_000;
/** How old the figures behind a refusal may be. */
const FIGURES_FRESH_MS = 100;
/** How old the figures behind an output limit may be. */
const HEADROOM_FRESH_MS = 1_000;
/** Interval of refills ahead of need. */
const REFILL_MS = 250;

/**
 * The leases of this proxy. A request reserves from every bucket of its chain or from none, in memory; it waits for the
 * control plane only if a lease is too small.
 */
export class LeaseBook {
  readonly #deps: LeaseBookDeps;
  readonly #calls: LeaseCalls;
  readonly #leases: LeaseTable;
  #isClosing = false;

  constructor(deps: LeaseBookDeps) {
    this.#deps = deps;
    this.#calls = new LeaseCalls({
      ...deps,
      // The clock in microseconds: a process uses fewer than a million numbers a second, so a later process of this epoch
      // starts higher.
      firstSeq: BigInt(Math.floor(deps.clockMs())) * 1_000n,
      onAnswer: (lease, askedAtMs, failure) => this.#answered(lease, askedAtMs, failure),
    });
    this.#leases = new LeaseTable({ ...deps, calls: this.#calls });
  }

  /** The number of buckets with a lease. */
  get size(): number {
    return this.#leases.size;
  }

  /** The number of buckets of whose leases only the figures are left. */
  get forgotten(): number {
    return this.#leases.forgotten;
  }

  /**
   * Reserves at once; undefined, and nothing reserved, if a lease is too small. A replaced lease is spent too, until what is idle of
   * it is given back: the ledger counts its hold in the newer counter as well.
   */
  tryReserve(policies: readonly BudgetedPolicy[], amount: bigint): Reservation | undefined {
    const nowMs = this.#deps.nowMs();
    const isValid = this.#isValid;
    const entries = policies.map((policy) => this.#leases.entryOf(policy, nowMs));
    let at = 0;
    for (const { lease } of entries) {
      const isShort = !isValid || lease.available < amount;
      if (policies[at++]?.enforcement === 'enforce' && isShort) return undefined;
    }
    at = 0;
    for (const entry of entries) {
      const { lease } = entry;
      if (policies[at++]?.enforcement === 'shadow') this.#checkShadow(entry, amount);
      lease.reserve(amount, nowMs);
      this.#leases.activate(entry);
      if (lease.isLow && nowMs - entry.refilledAtMs >= REFILL_MS) this.#refill(entry, amount, nowMs);
    }
    return { amountNanoUsd: amount, entries };
  }

  /**
   * Reserves, and waits if a lease is too small: for the control plane's response, which is asked for again while heartbeats
   * arrive, and up to a second for budget that others hold. Rejects with the refusal, whose message suggests an output limit by `asked`. Resolves with
   * undefined if a counter was replaced or its window is over: look the key up again.
   */
  async reserve(
    policies: readonly BudgetedPolicy[],
    amount: bigint,
    asked: Omit<RefusedRequest, 'estimateNanoUsd'>,
  ): Promise<Reservation | undefined> {
    const beganAtMs = this.#deps.nowMs();
    const wait = new LeaseWait(this.#calls, beganAtMs, beganAtMs);
    for (;;) {
      const reservation = this.tryReserve(policies, amount);
      if (reservation) return reservation;
      const nowMs = this.#deps.nowMs();
      const shortages = this.#shortagesOf(policies, amount, nowMs);
      for (const shortage of shortages) {
        const { figures } = shortage.entry.lease;
        if (!figures || figures.askedAtMs < beganAtMs - FIGURES_FRESH_MS) continue;
        if (shortage.entry.lease.isReplaced) return undefined;
        assertOpen(shortage);
        assertNotExhausted(shortage, asked);
      }
      const failed = shortages.find(({ entry }) => wait.hasFailed(entry));
      const isLive = this.#deps.isLive();
      if ((failed && !isLive) || wait.isAnswerOverdue(nowMs, isLive) || shortages.length === 0) {
        throw budgetUnavailable(failed?.entry.failure, onlyFurther(shortages));
      }
      // The control plane answered and spend leaves room, so others hold it.
      const contended = shortages.find(({ entry }) => wait.isAnswered(entry));
      if (isCrowded(shortages) || (contended && wait.isContentionOver(nowMs))) {
        throw budgetContended((contended ?? shortages[0])?.policy);
      }
      await wait.forMore(shortages, nowMs);
    }
  }

  /**
   * The most that a request may cost, by figures at most a second old; undefined if it is unlimited or the control plane
   * can't be asked. If others hold budget, waits up to a second for `useful`, and rejects if not even `least` comes
   * free.
   */
  async headroom(
    policies: readonly BudgetedPolicy[],
    { useful, least }: { readonly useful: bigint; readonly least: bigint },
  ): Promise<bigint | undefined> {
    const beganAtMs = this.#deps.nowMs();
    let enforced = this.#enforced(policies, beganAtMs);
    const wait = new LeaseWait(this.#calls, beganAtMs, beganAtMs - HEADROOM_FRESH_MS);
    await this.#refreshFigures(enforced, beganAtMs);
    const inUse = this.#enforced(policies, beganAtMs);
    if (inUse.some(({ entry }, at) => entry !== enforced[at]?.entry))
      await this.#refreshFigures(inUse, beganAtMs);
    enforced = inUse;
    for (;;) {
      const nowMs = this.#deps.nowMs();
      const buckets = enforced.flatMap(({ policy, entry }) => {
        const room = roomAt(entry.lease);
        return room ? [{ policy, entry, ...room, needed: lower(room.atRest, useful) }] : [];
      });
      const free = lowest(buckets.map((bucket) => bucket.free));
      if (free === undefined || free >= useful) return free;
      const held = buckets.filter((bucket) => bucket.free < bucket.needed);
      const isRefused = buckets.some(
        ({ entry: { lease } }) => lease.isExhaustedFor(least) || lease.isReplaced,
      );
      const hasFailed = enforced.some(({ entry }) => wait.hasFailed(entry));
      // Waiting won't help: what is missing is spent, or there is no answer. Reserving gives the reason.
      if (held.length === 0 || isRefused || hasFailed) return free;
      if (isCrowded(held) || wait.isContentionOver(nowMs)) {
        if (free >= least) return free;
        throw budgetContended(held.find((bucket) => bucket.free < least)?.policy);
      }
      await wait.forMore(held, nowMs);
    }
  }

  /** Ends a reservation with the attempt's cost. */
  settle({ entries, amountNanoUsd }: Reservation, actual: bigint): void {
    for (const entry of entries) {
      entry.lease.settle(amountNanoUsd, actual);
      wakeOne(entry);
    }
  }

  /** Returns what is idle in these buckets, because other proxies need it. */
  reclaim(buckets: readonly BucketRef[]): void {
    this.#leases.reclaim(buckets);
  }

  /** Call it each second: measures spending, returns idle leases and forgets those that stay idle. */
  everySecond(): void {
    this.#leases.everySecond();
  }

  /** Takes over the leases of an earlier process of the same epoch. */
  restore(persisted: readonly PersistedLease[]): void {
    this.#leases.restore(persisted);
  }

  /** For a later process of the same epoch. Call it when nothing is reserved. */
  toPersisted(): PersistedLease[] {
    return this.#leases.toPersisted();
  }

  /** Returns everything that is not reserved; resolves when the control plane has it, or the calls failed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#leases.returnAll();
  }

  get #isValid(): boolean {
    return this.#deps.silenceMs() < LEASE_VALIDITY_MS;
  }

  #shortagesOf(policies: readonly BudgetedPolicy[], needed: bigint, nowMs: number): Shortage[] {
    const isValid = this.#isValid;
    return this.#enforced(policies, nowMs).flatMap(({ policy, entry }) => {
      return !isValid || entry.lease.available < needed ? [{ policy, entry, needed }] : [];
    });
  }

  /** Those that may refuse, each with the counter of it that is in use. */
  #enforced(policies: readonly BudgetedPolicy[], nowMs: number) {
    return policies
      .filter(({ enforcement }) => enforcement === 'enforce')
      .map((policy) => {
        const entry = this.#leases.entryOf(policy, nowMs);
        const others = policy.limit?.opening?.others;
        return { policy: others && isOthers(entry) ? others : policy, entry };
      });
  }

  async #refreshFigures(buckets: readonly { readonly entry: LeaseEntry }[], nowMs: number): Promise<void> {
    const stale = buckets.filter(({ entry: { lease } }) => {
      return !lease.figures || nowMs - lease.figures.askedAtMs >= HEADROOM_FRESH_MS;
    });
    for (const { entry } of stale) this.#calls.ask(entry.lease, 0n);
    await Promise.all(stale.map(({ entry }) => waitForChange([entry], ANSWER_WAIT_MS)));
  }

  #refill(entry: LeaseEntry, amount: bigint, nowMs: number): void {
    if (this.#isClosing) return;
    entry.refilledAtMs = nowMs;
    this.#calls.ask(entry.lease, amount);
  }

  /** A shadow policy never refuses; it counts what it would have refused. */
  #checkShadow(entry: LeaseEntry, amount: bigint): void {
    const { lease } = entry;
    if (lease.available >= amount) return;
    if (lease.isExhaustedFor(amount)) this.#deps.onShadowRefusal(lease.bucket.policyId);
    const nowMs = this.#deps.nowMs();
    if (nowMs - entry.refilledAtMs >= REFILL_MS) this.#refill(entry, amount, nowMs);
  }

  #answered(lease: Lease, askedAtMs: number, failure: unknown): void {
    const entry = this.#leases.entryOfLease(lease);
    if (!entry) return;
    if (failure !== undefined) {
      entry.failure = failure;
      entry.failedCallAtMs = askedAtMs;
    }
    // This response may reveal a grant of an earlier call whose response was lost.
    if (!lease.isEmpty) this.#leases.activate(entry);
    wakeAll(entry);
  }
}

/** Whether the lease stands in for those on counters that the request's key could not open. */
function isOthers({ lease }: LeaseEntry): boolean {
  return lease.bucket.subject === OTHERS_SUBJECT;
}

/** The first of them if all are further limits: another model may not count in these. */
function onlyFurther(shortages: readonly Shortage[]): BudgetedPolicy | undefined {
  return shortages.every(({ policy }) => policy.limit) ? shortages[0]?.policy : undefined;
}

function assertOpen({ entry: { lease } }: Shortage): void {
  if (lease.figures?.outcome === 'closed') throw budgetUnavailable('the epoch is closed');
}

/** Throws if spend leaves no room for the amount. */
function assertNotExhausted(
  { policy, entry: { lease }, needed }: Shortage,
  asked: Omit<RefusedRequest, 'estimateNanoUsd'>,
): void {
  const { figures } = lease;
  if (figures && lease.available < needed && lease.isExhaustedFor(needed)) {
    throw budgetExhausted(policy, figures, { ...asked, estimateNanoUsd: needed });
  }
}

/** `free`: what no other proxy holds of a bucket's limit; `atRest`: the same once no one holds anything. */
function roomAt(lease: Lease): { readonly free: bigint; readonly atRest: bigint } | undefined {
  const { figures, available } = lease;
  if (figures?.limitNanoUsd === undefined) return undefined;
  const atRest = figures.limitNanoUsd - figures.spentNanoUsd;
  const unleased = atRest - figures.leasedNanoUsd;
  return { free: available > 0n ? unleased + available : unleased, atRest };
}

function lower(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function lowest(amounts: readonly bigint[]): bigint | undefined {
  return amounts.reduce<bigint | undefined>(
    (least, amount) => (least === undefined || amount < least ? amount : least),
    undefined,
  );
}
