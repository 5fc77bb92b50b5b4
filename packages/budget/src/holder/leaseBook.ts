import { type BucketRef, type Counts, type CountUnit, NO_COUNTS, OTHERS_SUBJECT } from '../bucketRef.ts';
import type { BudgetedPolicy } from '../policies.ts';
import { budgetContended, budgetExhausted, budgetUnavailable, type RefusedRequest } from './budgetErrors.ts';
import { FirstUseWindows, isOnFirstUse, type KnownWindows, type Unopened } from './firstUseWindows.ts';
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
  /** Held by buckets of tokens. Those of requests hold one. */
  readonly tokens: bigint;
  /** Each stays in the table while something is reserved from its lease. */
  readonly entries: readonly LeaseEntry[];
}

/** The buckets that a reservation is from, in the order of the policies. */
export function bucketsOf({ entries }: Reservation): BucketRef[] {
  return entries.map(({ lease }) => lease.bucket);
}

/** What a request may cost in each kind of bucket. */
export interface Headroom {
  /** Undefined: unlimited. */
  readonly nanoUsd: bigint | undefined;
  readonly tokens: bigint | undefined;
}

/** `useful`: less helps only if nothing else is free; `least`: with less, the request can't be sent. */
interface WantedRoom {
  readonly useful: bigint;
  readonly least: bigint;
}

const ONE: WantedRoom = { useful: 1n, least: 1n };

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
  readonly #windows: FirstUseWindows;
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
    this.#windows = new FirstUseWindows(deps);
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
   * it is given back: the ledger counts its hold in the newer counter as well. The amount is in nano-USD; `tokens` is what buckets of
   * tokens hold.
   */
  tryReserve(policies: readonly BudgetedPolicy[], amount: bigint, tokens = 0n): Reservation | undefined {
    const open = this.#windows.resolve(policies);
    return open && this.#tryReserveIn(open, amount, tokens);
  }

  #tryReserveIn(
    policies: readonly BudgetedPolicy[],
    amount: bigint,
    tokens: bigint,
  ): Reservation | undefined {
    const nowMs = this.#deps.nowMs();
    const isValid = this.#isValid;
    const entries = policies.map((policy) => this.#leases.entryOf(policy, nowMs));
    let at = 0;
    for (const { lease } of entries) {
      const isShort = !isValid || lease.available < neededOf(lease, amount, tokens);
      if (policies[at++]?.enforcement === 'enforce' && isShort) return undefined;
    }
    at = 0;
    for (const entry of entries) {
      const { lease } = entry;
      const needed = neededOf(lease, amount, tokens);
      if (policies[at++]?.enforcement === 'shadow') this.#checkShadow(entry, needed);
      lease.reserve(needed, nowMs);
      this.#leases.activate(entry);
      if (lease.isLow && nowMs - entry.refilledAtMs >= REFILL_MS) this.#refill(entry, needed, nowMs);
    }
    return { amountNanoUsd: amount, tokens, entries };
  }

  /**
   * Reserves, and waits if a lease is too small: for the control plane's response, which is asked for again while heartbeats
   * arrive, and up to a second for budget that others hold. Rejects with the refusal, whose message suggests an output limit by `asked`. Resolves with
   * undefined if a counter was replaced or its window is over: look the key up again.
   */
  async reserve(
    policies: readonly BudgetedPolicy[],
    amount: bigint,
    asked: Omit<RefusedRequest, 'estimate'>,
    tokens = 0n,
  ): Promise<Reservation | undefined> {
    if (!isOnFirstUse(policies)) return await this.#reserveIn(policies, amount, asked, tokens);
    const { isReplaced, unopened } = await this.#learn(policies);
    if (isReplaced) return undefined;
    for (const { policy, limit } of unopened) assertFits(policy, { limit, amount, tokens }, asked);
    // All else comes first: an attempt that is refused opens no window.
    const open = policies.flatMap((policy) => this.#windows.current(policy) ?? []);
    const held = await this.#reserveIn(open, amount, asked, tokens);
    if (!held) this.#windows.forget(policies);
    if (!held || unopened.length === 0) return held;
    try {
      const opened = await this.#openAll(unopened, { amount, tokens }, asked);
      if (opened) return this.#joined(policies, held, opened);
    } catch (error) {
      this.settle(held, 0n);
      throw error;
    }
    this.settle(held, 0n);
    this.#windows.forget(policies);
    return undefined;
  }

  /** Rejects with a refusal if the control plane does not answer. */
  async #learn(policies: readonly BudgetedPolicy[]): Promise<KnownWindows> {
    return await this.#windows.learn(policies).catch((error: unknown) => {
      throw budgetUnavailable(
        error,
        policies.find(({ firstUseMs }) => firstUseMs !== undefined),
      );
    });
  }

  /** Opens windows, and reserves in them. */
  async #openAll(
    unopened: readonly Unopened[],
    { amount, tokens }: { readonly amount: bigint; readonly tokens: bigint },
    asked: Omit<RefusedRequest, 'estimate'>,
  ): Promise<Reservation | undefined> {
    const isOpen = await this.#windows.open(unopened).catch((error: unknown) => {
      throw budgetUnavailable(error, unopened[0]?.policy);
    });
    const policies = unopened.flatMap(({ policy }) => this.#windows.current(policy) ?? []);
    if (!isOpen || policies.length < unopened.length) return undefined;
    return await this.#reserveIn(policies, amount, asked, tokens);
  }

  /** In the order of the policies. */
  #joined(policies: readonly BudgetedPolicy[], held: Reservation, opened: Reservation): Reservation {
    const entries = [...held.entries, ...opened.entries];
    const counterOf = ({ policyId, subject }: BucketRef) => `${policyId}/${subject}`;
    const byCounter = new Map(entries.map((entry) => [counterOf(entry.lease.bucket), entry]));
    const inOrder = policies.flatMap((policy) => {
      const others = policy.limit?.opening?.others;
      const own = byCounter.get(counterOf(policy.bucket));
      return own ?? (others && byCounter.get(counterOf(others.bucket))) ?? [];
    });
    return { ...held, entries: inOrder.length === entries.length ? inOrder : entries };
  }

  async #reserveIn(
    policies: readonly BudgetedPolicy[],
    amount: bigint,
    asked: Omit<RefusedRequest, 'estimate'>,
    tokens: bigint,
  ): Promise<Reservation | undefined> {
    const beganAtMs = this.#deps.nowMs();
    const wait = new LeaseWait(this.#calls, beganAtMs, beganAtMs);
    for (;;) {
      const reservation = this.#tryReserveIn(policies, amount, tokens);
      if (reservation) return reservation;
      const nowMs = this.#deps.nowMs();
      const shortages = this.#shortagesOf(policies, { amount, tokens }, nowMs);
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
    wanted: { readonly nanoUsd: WantedRoom; readonly tokens: WantedRoom },
  ): Promise<Headroom> {
    if (!isOnFirstUse(policies)) return await this.#headroomIn(policies, wanted, []);
    const { unopened } = await this.#learn(policies);
    const open = policies.flatMap((policy) => this.#windows.current(policy) ?? []);
    return await this.#headroomIn(open, wanted, unopened);
  }

  async #headroomIn(
    policies: readonly BudgetedPolicy[],
    wanted: { readonly nanoUsd: WantedRoom; readonly tokens: WantedRoom },
    /** What they may count is free. */
    unopened: readonly Unopened[],
  ): Promise<Headroom> {
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
        const { lease } = entry;
        const room = roomAt(lease);
        const want = lease.unit === 'requests' ? ONE : wanted[lease.unit ?? 'nanoUsd'];
        return room ? [{ policy, entry, ...room, ...want, needed: lower(room.atRest, want.useful) }] : [];
      });
      const freeOf = (unit: CountUnit | undefined) => {
        const ofUnit = buckets.filter(({ entry }) => entry.lease.unit === unit).map(({ free }) => free);
        return lowest([...ofUnit, ...limitsOf(unopened, unit)]);
      };
      const headroom = { nanoUsd: freeOf(undefined), tokens: freeOf('tokens') };
      if (buckets.every(({ free, useful }) => free >= useful)) return headroom;
      const held = buckets.filter((bucket) => bucket.free < bucket.needed);
      const isRefused = buckets.some(
        ({ entry: { lease }, least }) => lease.isExhaustedFor(least) || lease.isReplaced,
      );
      const hasFailed = enforced.some(({ entry }) => wait.hasFailed(entry));
      // Waiting won't help: what is missing is spent, or there is no answer. Reserving gives the reason.
      if (held.length === 0 || isRefused || hasFailed) return headroom;
      if (isCrowded(held) || wait.isContentionOver(nowMs)) {
        if (buckets.every(({ free, least }) => free >= least)) return headroom;
        throw budgetContended(held.find(({ free, least }) => free < least)?.policy);
      }
      await wait.forMore(held, nowMs);
    }
  }

  /** Ends a reservation with the attempt's cost in nano-USD, and what it counts in buckets of requests and tokens. */
  settle({ entries, amountNanoUsd, tokens }: Reservation, actual: bigint, counts: Counts = NO_COUNTS): void {
    for (const entry of entries) {
      const { lease } = entry;
      const charged = lease.unit === undefined ? actual : counts[lease.unit];
      lease.settle(neededOf(lease, amountNanoUsd, tokens), charged);
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
    this.#windows.everySecond();
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

  #shortagesOf(
    policies: readonly BudgetedPolicy[],
    { amount, tokens }: { readonly amount: bigint; readonly tokens: bigint },
    nowMs: number,
  ): Shortage[] {
    const isValid = this.#isValid;
    return this.#enforced(policies, nowMs).flatMap(({ policy, entry }) => {
      const needed = neededOf(entry.lease, amount, tokens);
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

/** Throws if not even a window that is yet to open covers what a request reserves. */
function assertFits(
  policy: BudgetedPolicy,
  of: { readonly limit: bigint | undefined; readonly amount: bigint; readonly tokens: bigint },
  asked: Omit<RefusedRequest, 'estimate'>,
): void {
  const estimate = neededOf({ unit: policy.limit?.unit }, of.amount, of.tokens);
  if (of.limit === undefined || estimate <= of.limit) return;
  throw budgetExhausted(policy, { limitNanoUsd: of.limit, spentNanoUsd: 0n }, { ...asked, estimate });
}

function limitsOf(unopened: readonly Unopened[], unit: CountUnit | undefined): bigint[] {
  return unopened.flatMap(({ policy, limit }) => (policy.limit?.unit === unit ? (limit ?? []) : []));
}

/** What a reservation takes of a lease. */
function neededOf({ unit }: Pick<Lease, 'unit'>, amountNanoUsd: bigint, tokens: bigint): bigint {
  if (unit === undefined) return amountNanoUsd;
  return unit === 'requests' ? 1n : tokens;
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
  asked: Omit<RefusedRequest, 'estimate'>,
): void {
  const { figures } = lease;
  if (figures && lease.available < needed && lease.isExhaustedFor(needed)) {
    throw budgetExhausted(policy, figures, { ...asked, estimate: needed });
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
