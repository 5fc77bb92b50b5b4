import { seededRandom } from '@weighbridge/domain';
import {
  type Amounts,
  amountIn,
  type Counter,
  CUSTOMERS,
  counter,
  type Fault,
  firstUseSteps,
  type Holder,
  isByCustomer,
  isOfCustomer,
  type LeaseLedger,
  MAX_COUNTERS,
  OTHERS_LIMIT,
  OVERRIDABLE,
  type Overridden,
  overriddenName,
  POLICIES,
  type PolicyName,
  type SimulatedCall,
  type SimulatedEvent,
  type SimulatedOverride,
  STANDING,
} from './leaseLedger.ts';
import {
  type Asked,
  headroom,
  type InFlight,
  type LeaseAccount,
  type Model,
  RETRY_STEPS,
  SimulatedProxy,
} from './simulatedProxy.ts';
import { SimulatedQuarantine } from './simulatedQuarantine.ts';
import { leaseKey, VendorBill, windowKey } from './vendorBill.ts';

export interface SimulationOptions {
  readonly seed: number;
  readonly steps: number;
  readonly windowSteps: number;
  /** Hard: no request costs more than its reservation. Balanced: up to twice as much. */
  readonly mode: 'hard' | 'balanced';
  /** True: no proxy crashes, and neither limits nor counters change. */
  readonly calm?: boolean;
  readonly maxInFlight?: number;
  /** How often usage is delivered while nothing else is, from 0 to 1: the lower, the further the ledger is behind. */
  readonly usageRate?: number;
  readonly fault?: Fault;
}

type Message =
  | { readonly is: 'call'; readonly holder: Holder; readonly calls: readonly SimulatedCall[] }
  | { readonly is: 'grants'; readonly holder: Holder; readonly grants: readonly Grant[] }
  | { readonly is: 'event'; readonly event: SimulatedEvent }
  | { readonly is: 'end'; readonly holder: Holder; readonly lastN: number };

interface Grant {
  readonly key: string;
  readonly seq: number;
  readonly standing: number;
  readonly exhausted: boolean;
  readonly others: boolean;
  readonly granted: number;
  readonly slice: number;
}

function hold(account: LeaseAccount, reserve: Amounts): void {
  account.reserved += amountIn(account.counter, reserve);
}

const NOTHING_GRANTED = { granted: 0, standing: 0, exhausted: false, others: false };
const MODELS: readonly Model[] = ['limited', 'other'];
/** As requests name them. */
const ASKED_CUSTOMERS = ['ann', 'bob', 'cy', 'unknown'] as const;

/**
 * Three proxies spend on a ledger over a network that loses, repeats and reorders messages, while processes die, spools are
 * lost, limits and counters change, requests fail over from one model to another, and absurd usage waits in quarantine for an operator. Rejects with the seed if the vendor's
 * bill exceeds what the limits allow, or if, once everything is delivered, a lease still holds something or a sum is wrong.
 */
export async function runSimulation(ledger: LeaseLedger, options: SimulationOptions): Promise<void> {
  await new Simulation(ledger, options).run();
}

class Simulation {
  readonly #ledger: LeaseLedger;
  readonly #options: SimulationOptions;
  readonly #random: () => number;
  readonly #bill: VendorBill;
  readonly #proxies: readonly SimulatedProxy[];
  readonly #limits: Record<PolicyName, number>;
  /** How many requests further limits count. */
  readonly #counted: number;
  /** In place of the limits, until their steps come. */
  readonly #overrides = new Map<string, SimulatedOverride & { readonly of: Overridden }>();
  /** What leases keep follows a lowered limit only when their proxies call. */
  readonly #highestLimits: Record<PolicyName, number>;
  readonly #control: Message[] = [];
  readonly #usage: Message[] = [];
  /** The newest answer to each lease. */
  readonly #answered = new Map<string, { seq: number; granted: number }>();
  readonly #recorded = new Map<number, SimulatedEvent>();
  /** By counter of a customer: whose request opened it. */
  readonly #opened = new Map<string, { readonly of: Counter; readonly by: 'A' | 'B' | undefined }>();
  /** When windows of F opened for attempts that held all else. */
  readonly #starts = new Set<number>();
  readonly #quarantine = new SimulatedQuarantine();
  /** Epochs whose spool is lost: what their leases hold stays held. */
  readonly #abandoned = new Set<string>();
  #step = 0;
  /** Of policy A's counter. */
  #version = 0;
  #events = 0;

  constructor(ledger: LeaseLedger, options: SimulationOptions) {
    this.#ledger = ledger;
    this.#options = options;
    this.#random = seededRandom(options.seed);
    const [large, small] = [() => this.#between(100, 300), () => this.#between(60, 200)];
    this.#limits = {
      P: large(),
      A: small(),
      B: small(),
      M: large(),
      T: small(),
      C: large(),
      R: 0,
      F: small(),
    };
    this.#limits.R = this.#between(1, 4);
    this.#highestLimits = { ...this.#limits };
    this.#counted = this.#pick([0, 0.5, 1]);
    const skew = options.windowSteps / 6;
    this.#proxies = [0, 1, 2].map(
      (index) =>
        new SimulatedProxy(index, options.fault === 'stamp-at-settle' ? this.#between(-skew, skew) : 0),
    );
    this.#bill = new VendorBill(options.mode, (what) => this.#fail(what));
  }

  async run(): Promise<void> {
    await this.#ledger.start({ ...this.#limits });
    for (const proxy of this.#proxies) await this.#ledger.register(proxy.holder, undefined);
    for (this.#step = 1; this.#step <= this.#options.steps; this.#step++) {
      await this.#endOverrides();
      await this.#act(this.#pick(this.#proxies));
      await this.#deliverSome();
    }
    await this.#comeToRest();
    await this.#checkQuarantineHeld();
    while (this.#quarantine.undecided.length > 0) await this.#decide();
    await this.#checkRest();
    for (const proxy of this.#proxies) {
      this.#usage.push({ is: 'end', holder: proxy.holder, lastN: proxy.n });
      proxy.restart();
    }
    await this.#deliverAll();
    await this.#checkRest();
  }

  async #act(proxy: SimulatedProxy): Promise<void> {
    const chance = this.#random();
    if (chance < 0.45) {
      await this.#admit(proxy);
      if (this.#random() < 0.6) await this.#settle(proxy);
    } else if (chance < 0.62) await this.#settle(proxy);
    else if (chance < 0.67) this.#giveBack(proxy, this.#random() < 0.5);
    else if (chance < 0.7) proxy.version = this.#version;
    else if (this.#options.calm) await this.#settle(proxy);
    else if (chance < 0.72) await this.#crash(proxy);
    else if (chance < 0.74) await this.#ledger.expire(this.#random());
    else if (chance < 0.755) await this.#changeLimit();
    else if (chance < 0.765) await this.#changeCounter();
    else if (chance < 0.785) await this.#changeOverride();
    else if (chance < 0.81) await this.#ledger.endDueOverrides(this.#step);
    else if (chance < 0.83) await this.#decide();
    else if (chance < 0.88) await this.#ledger.closeLeases(2);
    else if (chance < 0.95) await this.#ledger.mergeSpend(this.#pick(POLICIES), this.#between(1, 6));
    else if (chance < 0.97) await this.#ledger.crashMerging(this.#pick(POLICIES), this.#between(1, 6));
  }

  async #deliverSome(): Promise<void> {
    for (let deliveries = 0; deliveries < 2; deliveries++) {
      if (this.#control.length > 0 && this.#random() < 0.8) await this.#deliver(this.#control, false);
      else if (this.#random() < (this.#options.usageRate ?? 0.3)) await this.#deliver(this.#usage, false);
    }
  }

  /** All requests end, all messages are delivered, and all headroom is given back. */
  async #comeToRest(): Promise<void> {
    for (const proxy of this.#proxies) while (proxy.inFlight.length > 0) await this.#settle(proxy);
    for (const isContended of [false, false, true, true]) {
      await this.#deliverAll();
      // Twice each: the first time, a proxy may still learn of a grant.
      for (const proxy of this.#proxies) this.#giveBack(proxy, isContended);
      if (isContended) continue;
      await this.#deliverAll();
    }
    await this.#deliverAll();
    await this.#mergeAll();
    await this.#closeAllLeases();
  }

  async #mergeAll(): Promise<void> {
    for (const policy of POLICIES) await this.#ledger.mergeSpend(policy, Number.POSITIVE_INFINITY);
  }

  async #closeAllLeases(): Promise<void> {
    while ((await this.#ledger.closeLeases(2)).length > 0);
  }

  async #deliverAll(): Promise<void> {
    while (this.#control.length > 0) await this.#deliver(this.#control, true);
    while (this.#usage.length > 0) await this.#deliver(this.#usage, true);
  }

  /** What proxies keep while they spend nothing is together a small part of each limit. */
  #checkStanding(): void {
    const kept = new Map<string, { policy: PolicyName; sum: number }>();
    for (const { accounts } of this.#proxies) {
      for (const { counter: of, standing } of accounts.values()) {
        const all = kept.get(of.key) ?? { policy: of.policy, sum: 0 };
        all.sum += standing;
        kept.set(of.key, all);
      }
    }
    for (const [key, { policy, sum }] of kept) {
      const most = this.#highestLimits[policy] / STANDING.together;
      if (sum > most) this.#fail(`idle leases on ${key} may keep ${sum}, more than ${most}`);
    }
  }

  async #admit(proxy: SimulatedProxy): Promise<void> {
    const policy = this.#pick(['A', 'B'] as const);
    if (this.#random() < this.#counted) {
      await this.#attempt(proxy, { policy, customer: this.#pick(ASKED_CUSTOMERS) }, this.#pick(MODELS));
    } else await this.#attempt(proxy, { policy, customer: undefined }, 'other');
  }

  /** Rules 5 and 6: an attempt reserves from all buckets of its set, or from none. `first` is the model that its request went to before. */
  async #attempt(proxy: SimulatedProxy, asked: Asked, model: Model, first = model): Promise<void> {
    if (proxy.inFlight.length >= (this.#options.maxInFlight ?? 8)) return;
    const reserve = { money: this.#between(5, 40), requests: 1, tokens: this.#between(5, 40) };
    const cost = this.#costOf(reserve);
    const main = this.#chainOf(proxy, asked, reserve);
    const limits = this.#limitsOf(proxy, asked, { model, first });
    if (asked.customer !== undefined && this.#isLost()) return;
    const onFirstUse = asked.customer === undefined ? [] : await this.#openWindowOf(proxy);
    const always = [...main.reservedIn, ...limits.reservedIn];
    const reservedIn = [...always, ...onFirstUse];
    const accounts = reservedIn.map((of) => proxy.account(of, asked.policy));
    const short = accounts.filter((account) => headroom(account) < amountIn(account.counter, reserve));
    if (short.length > 0) {
      if (this.#options.fault === 'refused-keeps-part') {
        for (const account of accounts) if (!short.includes(account)) hold(account, reserve);
      }
      this.#askForMore(proxy, short, reserve);
      return;
    }
    if (asked.customer !== undefined && onFirstUse.length === 0) return await this.#open(proxy, reserve);
    for (const account of accounts) hold(account, reserve);
    proxy.inFlight.push({
      id: ++this.#events,
      reserve,
      cost,
      admittedOn: reservedIn,
      chargedTo: [...main.chargedTo, ...limits.chargedTo, ...onFirstUse],
      admittedStep: this.#step,
      asked,
      model,
    });
    for (const { window } of onFirstUse) this.#checkUsed(window);
    for (const of of [...main.governed, ...limits.governed, ...onFirstUse]) {
      this.#bill.charge(of, amountIn(of, cost));
      this.#bill.noteOverage(of, proxy.holder, proxy.overageInFlight(of));
      this.#bill.check(of);
    }
  }

  /** A call of the control plane gets no answer. */
  #isLost(): boolean {
    return this.#random() < 0.1;
  }

  /** Rule 25: the counter of F in the window that is open; none if it has yet to open. */
  async #openWindowOf(proxy: SimulatedProxy): Promise<Counter[]> {
    const length = firstUseSteps(this.#options.windowSteps);
    const { fault } = this.#options;
    const isOpen =
      proxy.opened !== undefined && (this.#step < proxy.opened + length || fault === 'window-outlives');
    if (!isOpen) proxy.opened = await this.#ledger.windowOf(fault === 'refused-opens-window', this.#step);
    return proxy.opened === undefined ? [] : [counter('F', 0, proxy.opened)];
  }

  /** All else is reserved for an attempt: it is sent as soon as the window has a lease for it. */
  async #open(proxy: SimulatedProxy, reserve: Amounts): Promise<void> {
    if (this.#limits.F < reserve.money) return;
    proxy.opened = await this.#ledger.windowOf(true, this.#step);
    if (proxy.opened === undefined) this.#fail('no window of F opened');
    this.#starts.add(proxy.opened);
    if (this.#isLost()) proxy.opened = undefined;
    else this.#askForMore(proxy, [proxy.account(counter('F', 0, proxy.opened))], reserve);
  }

  /** Windows of F never overlap, and an attempt is in the one that is open. */
  #checkUsed(start: number): void {
    const length = firstUseSteps(this.#options.windowSteps);
    if (this.#step >= start + length) this.#fail(`an attempt is in the window from ${start}, which is over`);
    const known = this.#starts.has(start);
    if (!known) this.#fail(`no attempt that held all else opened the window from ${start}`);
    const other = [...this.#starts].find((one) => one !== start && Math.abs(one - start) < length);
    if (other !== undefined) this.#fail(`windows from ${start} and from ${other} overlap`);
  }

  /** One in six attempts comes to nothing: it costs nothing, and counts in no limit. */
  #costOf({ money, tokens }: Amounts): Amounts {
    if (this.#random() < 0.15) return { money: 0, requests: 0, tokens: 0 };
    const upTo = (reserve: number) => {
      const most = this.#options.mode === 'hard' ? reserve : 2 * reserve;
      return this.#random() < 0.3 ? most : this.#between(0, most);
    };
    return { money: upTo(money), requests: 1, tokens: upTo(tokens) };
  }

  /**
   * Rule 16: a request that the budget of A can't pay is governed by B in its place. Their parent P binds in either case. By the
   * rules, what governs a request is what it reserves in and what it is charged to.
   */
  #chainOf(proxy: SimulatedProxy, asked: Asked, reserve: Amounts) {
    const window = this.#windowAt(this.#step);
    const [a, b, p] = [counter('A', proxy.version, window), counter('B', 0, window), counter('P', 0, window)];
    const account = proxy.account(a);
    const isReplaced = asked.policy === 'A' && account.exhausted && headroom(account) < reserve.money;
    const governed = asked.policy === 'A' && !isReplaced ? [a, p] : [b, p];
    if (!isReplaced) return { governed, reservedIn: governed, chargedTo: governed };
    // Its limit may have been raised meanwhile.
    if (this.#random() < 0.3) this.#askForMore(proxy, [account], reserve);
    const { fault } = this.#options;
    const reservedIn =
      fault === 'replacement-not-reserved' ? [p] : fault === 'replacement-leaves-parents' ? [b] : governed;
    return { governed, reservedIn, chargedTo: fault === 'replaced-charged-too' ? [a, b, p] : reservedIn };
  }

  /**
   * Rule 23: the further limits of an attempt are those that match its own model and its request's attribution when it reserves. It is
   * charged to these, whatever its request went to before, and whatever matches when it is settled.
   */
  #limitsOf(proxy: SimulatedProxy, asked: Asked, { model, first }: { model: Model; first: Model }) {
    const { fault } = this.#options;
    const governed = this.#matching(proxy, asked, model);
    const leaves = (of: Counter) =>
      (fault === 'unknown-unlimited' && of.customer === 'unknown') ||
      (fault === 'others-not-reserved' && of.customer === 'others') ||
      (fault === 'counts-not-reserved' && (of.policy === 'R' || of.policy === 'T'));
    const matching = fault === 'failover-keeps-set' ? this.#matching(proxy, asked, first) : governed;
    const reservedIn = matching.filter((of) => !leaves(of));
    const chargedTo =
      fault === 'matched-at-settlement' ? this.#matching(proxy, asked, this.#pick(MODELS)) : reservedIn;
    return { governed, reservedIn, chargedTo };
  }

  #matching(proxy: SimulatedProxy, { policy, customer }: Asked, model: Model): Counter[] {
    if (customer === undefined) return [];
    const window = this.#windowAt(this.#step);
    const ofCustomer = (['C', 'R'] as const).map((limit) => {
      const own = counter(limit, 0, window, customer);
      return proxy.account(own, policy).others ? counter(limit, 0, window, 'others') : own;
    });
    return model === 'limited'
      ? [counter('M', 0, window), counter('T', 0, window), ...ofCustomer]
      : ofCustomer;
  }

  /** One call per lease at a time, repeated if no response arrives. */
  #askForMore(proxy: SimulatedProxy, short: readonly LeaseAccount[], reserve: Amounts): void {
    const due = short.filter((account) => this.#step - account.askedStep >= RETRY_STEPS);
    if (due.length === 0) return;
    const calls = due.map((account) => {
      account.askedStep = this.#step;
      // A request that exceeded its reservation left a debt, which is covered first.
      const minimum = amountIn(account.counter, reserve) - Math.min(0, headroom(account));
      const slice = account.counter.policy === 'R' ? this.#between(1, 4) : this.#between(20, 150);
      return this.#call(account, Math.max(minimum, slice), minimum);
    });
    this.#control.push({ is: 'call', holder: proxy.holder, calls });
  }

  #call(account: LeaseAccount, want: number, minimum: number, release = false): SimulatedCall {
    account.seq++;
    const returned = this.#options.fault === 'returns-as-deltas' ? account.unsentReturns : account.returned;
    account.unsentReturns = 0;
    return {
      counter: account.counter,
      namedBy: account.namedBy,
      seq: account.seq,
      returned,
      want,
      minimum,
      standing: account.standing,
      release,
    };
  }

  async #settle(proxy: SimulatedProxy): Promise<void> {
    const [request] = proxy.inFlight.splice(Math.floor(this.#random() * proxy.inFlight.length), 1);
    if (!request) return;
    const { reserve, cost } = request;
    const isAbsurd = !this.#options.calm && this.#random() < 0.12;
    if (isAbsurd) proxy.quarantined.push(request);
    for (const of of request.admittedOn) {
      const account = proxy.account(of);
      account.reserved -= amountIn(of, reserve);
      account.spent += this.#chargeOf(of, request, isAbsurd);
    }
    this.#write(proxy, request, cost, isAbsurd);
    const { asked, model } = request;
    const failsOver = asked.customer !== undefined && this.#random() < 0.2;
    if (failsOver) await this.#attempt(proxy, asked, model === 'other' ? 'limited' : 'other', model);
  }

  /** Rule 17: the proxy charges the reservation of a request whose usage is beyond the bound. */
  #chargeOf(of: Counter, request: InFlight, isAbsurd: boolean): number {
    const { fault } = this.#options;
    const [reserve, cost] = [amountIn(of, request.reserve), amountIn(of, request.cost)];
    if (isAbsurd) return fault === 'quarantined-not-charged' ? 0 : reserve;
    return fault === 'forget-overage' ? Math.min(cost, reserve) : cost;
  }

  /** Writes a usage event to the spool and sends it, sometimes twice. */
  #write(proxy: SimulatedProxy, request: InFlight, cost: Amounts, refused = false): void {
    const { id, reserve, admittedOn, chargedTo, admittedStep } = request;
    const counters =
      this.#options.fault === 'stamp-at-settle'
        ? admittedOn.map((of) =>
            counter(
              of.policy,
              of.version,
              Math.max(0, this.#windowAt(this.#step + proxy.clockSkew)),
              of.customer,
            ),
          )
        : chargedTo;
    const event = {
      id,
      holder: proxy.holder,
      n: ++proxy.n,
      admittedOn,
      counters,
      // Rule 24: an attempt takes of each counter the amount that the limit counts.
      cost:
        this.#options.fault === 'counts-by-cost'
          ? { money: cost.money, requests: cost.money, tokens: cost.money }
          : cost,
      reserve,
      admittedStep,
      refused,
    };
    proxy.spool.push(event);
    this.#usage.push({ is: 'event', event });
    if (this.#random() < 0.2) this.#usage.push({ is: 'event', event });
  }

  /**
   * Rule 14: unused headroom is returned, but for what the lease may keep; all of it if others need it. The response also tells of
   * grants whose own response was lost.
   */
  #giveBack(proxy: SimulatedProxy, isContended: boolean): void {
    const calls = [...proxy.accounts.values()].map((account) => {
      const unused = Math.max(0, headroom(account) - (isContended ? 0 : account.standing));
      account.returned += unused;
      account.unsentReturns += unused;
      return this.#call(account, 0, 0, this.#options.fault === 'close-returns-unsettled' && unused > 0);
    });
    if (calls.length > 0) this.#control.push({ is: 'call', holder: proxy.holder, calls });
  }

  /** The process dies. Its successor settles the orphaned requests at their reservations, unless the spool is lost too. */
  async #crash(proxy: SimulatedProxy): Promise<void> {
    const before = proxy.holder;
    if (this.#random() < 0.3) this.#loseSpool(before);
    else {
      for (const orphan of proxy.inFlight) this.#write(proxy, orphan, this.#orphanCost(orphan));
      for (const event of proxy.spool) if (this.#random() < 0.5) this.#usage.push({ is: 'event', event });
      this.#usage.push({ is: 'end', holder: before, lastN: proxy.n });
    }
    proxy.restart();
    await this.#ledger.register(proxy.holder, before);
  }

  /** Rule 24: of each counter, what was reserved. */
  #orphanCost({ reserve }: InFlight): Amounts {
    return this.#options.fault === 'crash-forgets-counts' ? { ...reserve, requests: 0, tokens: 0 } : reserve;
  }

  #loseSpool(holder: Holder): void {
    this.#abandoned.add(`${holder.proxy}/${holder.epoch}`);
    for (let i = this.#usage.length - 1; i >= 0; i--) {
      const message = this.#usage[i];
      const isOwn = message?.is === 'event' && message.event.holder.proxy === holder.proxy;
      if (isOwn && message.event.holder.epoch === holder.epoch && this.#random() < 0.3) {
        this.#usage.splice(i, 1);
      }
    }
  }

  async #changeLimit(): Promise<void> {
    const policy = this.#pick(POLICIES);
    const limit = policy === 'R' ? this.#between(1, 8) : this.#between(50, 500);
    this.#limits[policy] = limit;
    this.#highestLimits[policy] = Math.max(limit, this.#highestLimits[policy]);
    await this.#ledger.setLimit(policy, limit, this.#step);
    await this.#limitChanged(policy);
  }

  /** Starts an override, or ends the one in force. */
  async #changeOverride(): Promise<void> {
    const of = this.#pick(OVERRIDABLE);
    const { policy } = of;
    if (this.#overrides.delete(overriddenName(of))) await this.#ledger.endOverride(of, this.#step);
    else {
      // That of a customer may freeze it.
      const limit = this.#between(of.customer ? 0 : 50, 500);
      const override = { limit, ends: this.#step + this.#between(1, 60) };
      this.#overrides.set(overriddenName(of), { ...override, of });
      this.#highestLimits[policy] = Math.max(override.limit, this.#highestLimits[policy]);
      // Its predecessor may be over without being marked.
      await this.#ledger.endDueOverrides(this.#step);
      await this.#ledger.startOverride(of, override, this.#step);
    }
    await this.#limitChanged(policy);
  }

  /** From its step on, an override allows nothing more, whether the ledger was told or not. */
  async #endOverrides(): Promise<void> {
    for (const [name, { of, ends }] of this.#overrides) {
      if (this.#step < ends) continue;
      this.#overrides.delete(name);
      await this.#limitChanged(of.policy);
    }
  }

  async #limitChanged(policy: PolicyName): Promise<void> {
    const version = this.#versionOf(policy);
    const window =
      policy === 'F' ? await this.#ledger.windowOf(false, this.#step) : this.#windowAt(this.#step);
    if (window === undefined) return;
    const customers = isByCustomer(policy) ? CUSTOMERS : [undefined];
    for (const current of customers.map((customer) => counter(policy, version, window, customer))) {
      if (!this.#bill.isOpen(current)) continue;
      // What leases hold when a limit is lowered may still be spent.
      this.#bill.allow(current, Math.max(this.#limitOf(current), await this.#ledger.exposure(current)));
      this.#bill.check(current);
    }
  }

  #limitOf(of: Overridden): number {
    if (of.policy === 'C' && of.customer === 'others') return OTHERS_LIMIT;
    return this.#overrideOf(of)?.limit ?? this.#limits[of.policy];
  }

  #overrideOf(of: Overridden): SimulatedOverride | undefined {
    const override = this.#overrides.get(overriddenName(of));
    return override && this.#step < override.ends ? override : undefined;
  }

  /** An operator decides on a quarantined event; one in four times on any of them, perhaps a second time. */
  async #decide(): Promise<void> {
    const { all, undecided } = this.#quarantine;
    const entry = this.#pick(this.#random() < 0.25 ? all : undecided);
    if (!entry) return;
    const { event } = entry;
    const decision = this.#random() < 0.5 ? 'released' : 'discarded';
    if (!entry.decision) {
      entry.decision = decision;
      if (decision === 'released') this.#recorded.set(event.id, event);
      else for (const of of event.admittedOn) this.#bill.charge(of, -amountIn(of, event.cost));
    }
    await this.#ledger.decide(event, decision, this.#step);
  }

  /** Until an operator decides, each lease holds at least what was reserved for its quarantined usage, its epoch closed or not. */
  async #checkQuarantineHeld(): Promise<void> {
    // A request that exceeds its reservation leaves a debt in its lease.
    if (this.#options.mode !== 'hard') return;
    const { held } = await this.#ledger.atRest();
    const holds = new Map(
      held.map(({ holder, key, hold }) => [`${key}/${holder.proxy}/${holder.epoch}`, hold]),
    );
    for (const [lease, least] of this.#quarantine.reserved()) {
      const hold = holds.get(lease) ?? 0;
      if (hold < least) this.#fail(`${lease} holds ${hold}, less than the ${least} of its quarantined usage`);
    }
  }

  async #changeCounter(): Promise<void> {
    this.#version++;
    const next = counter('A', this.#version, this.#windowAt(this.#step));
    await this.#ledger.startCounter(next, this.#step);
    this.#bill.allow(next, Math.max(this.#limitOf(next), await this.#ledger.exposure(next)));
    this.#bill.check(next);
  }

  async #deliver(queue: Message[], isReliable: boolean): Promise<void> {
    const index = Math.floor(this.#random() * queue.length);
    const message = queue[index];
    if (!message) return;
    // One in four is delivered again, at any time.
    if (isReliable || this.#random() > 0.25) {
      queue[index] = queue.at(-1) as Message;
      queue.pop();
    }
    if (message.is === 'event') {
      const { event } = message;
      if (!event.refused) this.#recorded.set(event.id, event);
      else this.#quarantine.add(event);
      await this.#ledger.record(event);
    } else if (message.is === 'end') {
      await this.#ledger.declareLast(message.holder, message.lastN, this.#step);
    } else if (message.is === 'grants') {
      this.#applyGrants(message.holder, message.grants);
    } else if (isReliable || this.#random() > 0.1) {
      const grants = await this.#answerCalls(message.holder, message.calls);
      if (isReliable || this.#random() > 0.15) {
        this.#control.push({ is: 'grants', holder: message.holder, grants });
      }
    }
  }

  async #answerCalls(holder: Holder, calls: readonly SimulatedCall[]): Promise<Grant[]> {
    for (const { counter: of } of calls) {
      if (!this.#bill.isOpen(of)) this.#bill.allow(of, this.#limitOf(of));
    }
    const answers = await this.#ledger.call(holder, calls, this.#step);
    const granted: Counter[] = [];
    const grants = calls.map(({ counter: of, seq, namedBy }, i) => {
      const lease = leaseKey(of, holder);
      const last = this.#answered.get(lease) ?? { seq: 0, granted: 0 };
      const { granted: now, standing, exhausted, others } = answers[i] ?? NOTHING_GRANTED;
      if (this.#proxies[holder.proxy]?.epoch === holder.epoch) this.#checkOpened(of, namedBy, others);
      if (now < last.granted) this.#fail(`${lease} was granted ${last.granted}, now ${now}`);
      if (seq <= last.seq && now > last.granted) this.#fail(`${lease} was granted again by an old call`);
      // Without a lease, nothing notes the number of the call.
      if (!others) this.#answered.set(lease, { seq: Math.max(seq, last.seq), granted: now });
      if (now > last.granted) granted.push(of);
      return { key: of.key, seq, granted: now, standing, exhausted, others, slice: now - last.granted };
    });
    for (const of of granted) await this.#checkGranted(of);
    return grants;
  }

  /** Rule 21: a key may open so many counters of customers in a window, and no more, whatever other keys do. */
  #checkOpened(of: Counter, by: 'A' | 'B', isOther: boolean): void {
    if (!isOfCustomer(of) || of.window !== this.#windowAt(this.#step) || this.#opened.has(of.key)) return;
    if (this.#overrideOf(of)) {
      if (isOther) this.#fail(`${of.key} was not opened, and has an override`);
      this.#opened.set(of.key, { of, by: undefined });
      return;
    }
    const opened = [...this.#opened.values()].filter(
      (one) => one.by === by && one.of.policy === of.policy && one.of.window === of.window,
    );
    if (isOther !== opened.length >= MAX_COUNTERS) {
      this.#fail(`${of.key} was ${isOther ? 'not ' : ''}opened by ${by}, which has opened ${opened.length}`);
    }
    if (!isOther) this.#opened.set(of.key, { of, by });
  }

  /** Rule 2: a grant never lifts what is spent and held above the limit, whatever of it is merged. */
  async #checkGranted(of: Counter): Promise<void> {
    const [exposure, limit] = [await this.#ledger.exposure(of), this.#limitOf(of)];
    if (exposure > limit) this.#fail(`${of.key} was granted up to ${exposure}, with a limit of ${limit}`);
  }

  #applyGrants(holder: Holder, grants: readonly Grant[]): void {
    const proxy = this.#proxies[holder.proxy];
    if (proxy?.epoch !== holder.epoch) return;
    for (const { key, seq, granted, standing, exhausted, others, slice } of grants) {
      const account = proxy.accounts.get(key);
      if (!account) continue;
      if (this.#options.fault === 'grants-as-deltas') account.granted += slice;
      else account.granted = Math.max(account.granted, granted);
      // Of the newest call alone: an older answer may allow more than there is now.
      if (seq !== account.seq) continue;
      account.standing = standing;
      account.exhausted = exhausted;
      account.others = others;
    }
    this.#checkStanding();
  }

  async #checkRest(): Promise<void> {
    await this.#mergeAll();
    await this.#closeAllLeases();
    const { buckets, held } = await this.#ledger.atRest();
    let left = 0;
    for (const { holder, key, hold } of held) {
      const isLive = this.#proxies[holder.proxy]?.epoch === holder.epoch;
      const expected = isLive
        ? Math.max(0, this.#quarantine.leftOfDecided(`${key}/${holder.proxy}/${holder.epoch}`))
        : 0;
      left += Math.min(hold, expected);
      if (hold > expected && !this.#abandoned.has(`${holder.proxy}/${holder.epoch}`)) {
        this.#fail(`phantom: proxy ${holder.proxy} in epoch ${holder.epoch} still holds ${hold} of ${key}`);
      }
    }
    const spent = new Map<string, number>();
    for (const event of this.#recorded.values()) {
      for (const of of event.admittedOn) {
        spent.set(windowKey(of), (spent.get(windowKey(of)) ?? 0) + amountIn(of, event.cost));
      }
    }
    for (const bucket of buckets) {
      const [policy, version, window, customer] = bucket.key.split('|') as [PolicyName, ...string[]];
      const isCurrent = Number(version) === this.#versionOf(policy);
      const expected = spent.get(windowKey({ policy, window: Number(window), customer })) ?? 0;
      if (isCurrent && bucket.spent !== expected) {
        this.#fail(`${bucket.key} has ${bucket.spent} spent; its events add up to ${expected}`);
      }
      const billed = this.#bill.chargedTo({ policy, window: Number(window), customer });
      // In balanced mode, what a crash left open may have cost more than its reservation.
      const isComplete = this.#options.mode === 'hard' && this.#abandoned.size === 0;
      if (isCurrent && isComplete && bucket.spent < billed) {
        this.#fail(`${bucket.key} has ${bucket.spent} spent, less than the bill of ${billed}`);
      }
      if (bucket.leased > left && this.#abandoned.size === 0) {
        this.#fail(`${bucket.key} still has ${bucket.leased} leased`);
      }
    }
  }

  #fail(what: string): never {
    throw new Error(`seed ${this.#options.seed}, step ${this.#step}: ${what}`);
  }

  #windowAt(step: number): number {
    return Math.floor(step / this.#options.windowSteps);
  }

  #versionOf(policy: PolicyName): number {
    return policy === 'A' ? this.#version : 0;
  }

  #between(low: number, high: number): number {
    return low + Math.floor(this.#random() * (high - low + 1));
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)] as T;
  }
}
