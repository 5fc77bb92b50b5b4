import { seededRandom } from '@weighbridge/domain';
import {
  type Amounts,
  counter,
  type Holder,
  POLICIES,
  type SimulatedEvent,
} from '../../src/model/leaseLedger.ts';
import { referenceLedger } from '../../src/model/referenceLedger.ts';
import {
  headroom,
  type InFlight,
  type LeaseAccount,
  RETRY_STEPS,
  type SimulatedProxy,
} from '../../src/model/simulatedProxy.ts';
import { VendorBill } from '../../src/model/vendorBill.ts';
import { applyGrants, callOf, grantsOf, type HolderCalls, type HolderGrants } from './holderMessages.ts';
import { Region, type RegionEvent, type RegionFault } from './region.ts';

export interface TwoLevelOptions {
  readonly seed: number;
  readonly steps: number;
  readonly windowSteps: number;
  /** Hard: no request costs more than its reservation. Balanced: up to twice as much. */
  readonly mode: 'hard' | 'balanced';
  readonly fault?: RegionFault;
}

/** Within a region, and between it and home. Each may be lost, repeated or late. */
type Message =
  | ({ readonly is: 'call'; readonly to: 'region' | 'home' } & HolderCalls)
  | ({ readonly is: 'grants'; readonly to: 'region' | 'proxy' } & HolderGrants)
  | { readonly is: 'event'; readonly to: 'home'; readonly event: SimulatedEvent }
  | { readonly is: 'event'; readonly to: 'region'; readonly event: RegionEvent }
  | { readonly is: 'end'; readonly to: 'region' | 'home'; readonly holder: Holder; readonly lastN: number };

interface Sent {
  readonly region: Region;
  readonly message: Message;
}

const REGIONS = 3;
const PROXIES = 2;

/**
 * Three regions of two proxies spend on one budget of home. Each has leases on home's counters, and grants its proxies leases on what it
 * was allotted. The network loses, repeats and reorders messages, cuts regions off, proxies die, databases of regions are lost, and
 * limits change. Rejects with the seed if the vendor's bill exceeds what home's limits allow, or if, once everything is delivered, a
 * lease still holds something or a sum is wrong.
 */
export async function runTwoLevels(options: TwoLevelOptions): Promise<void> {
  await new TwoLevels(options).run();
}

class TwoLevels {
  readonly #options: TwoLevelOptions;
  readonly #random: () => number;
  readonly #home;
  readonly #bill: VendorBill;
  readonly #regions: readonly Region[];
  readonly #limits: { P: number; A: number };
  readonly #messages: Sent[] = [];
  /** By region: the step until which nothing passes between it and home. */
  readonly #cutUntil: number[];
  /** What each proxy's process has written. */
  readonly #spools = new Map<string, RegionEvent[]>();
  readonly #recorded = new Map<number, SimulatedEvent>();
  /** Epochs at home of regions whose database is lost: what these hold stays held. */
  readonly #abandoned = new Set<string>();
  /** Regions that take no requests, since they end. */
  readonly #ending = new Set<Region>();
  /** Of the fault `forwards-as-new`. */
  #deliveries = 1_000_000;
  #step = 0;
  #ids = 0;

  constructor(options: TwoLevelOptions) {
    const { windowSteps, mode, fault } = options;
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#home = referenceLedger({
      windowSteps,
      ...(fault === 'silence-refunds' && { fault: 'expiry-refunds' }),
    });
    this.#bill = new VendorBill(mode, (what) => this.#fail(what));
    this.#limits = { P: this.#between(150, 500), A: this.#between(100, 400) };
    this.#regions = Array.from(
      { length: REGIONS },
      (_, index) => new Region({ index, proxies: PROXIES, windowSteps, fault }),
    );
    this.#cutUntil = this.#regions.map(() => 0);
  }

  async run(): Promise<void> {
    await this.#home.start({ ...this.#limits, B: 0, M: 0, T: 0, C: 0, R: 0, F: 0 });
    for (const region of this.#regions) await this.#home.register(region.holder, undefined);
    for (this.#step = 1; this.#step <= this.#options.steps; this.#step++) {
      const region = this.#pick(this.#regions);
      await this.#act(region, this.#pick(region.proxies));
      for (let i = 0; i < 3; i++) await this.#deliver(false);
    }
    await this.#comeToRest();
    await this.#endAll();
  }

  async #act(region: Region, proxy: SimulatedProxy): Promise<void> {
    if (this.#ending.has(region)) return this.#end(region);
    const chance = this.#random();
    if (chance < 0.5) {
      this.#admit(region, proxy);
      if (this.#random() < 0.6) this.#settle(region, proxy);
    } else if (chance < 0.66) this.#settle(region, proxy);
    else if (chance < 0.72) this.#proxyGivesBack(region, proxy);
    else if (chance < 0.77) this.#send(region, { is: 'call', to: 'home', ...(await region.giveBack()) });
    else if (chance < 0.79) await this.#crash(region, proxy);
    else if (chance < 0.795) await this.#loseDatabase(region);
    else if (chance < 0.81) this.#cutUntil[region.index] = this.#step + this.#between(20, 80);
    else if (chance < 0.83) await this.#changeLimit();
    else if (chance < 0.86) await this.#home.expire(this.#random());
    else if (chance < 0.9) await this.#home.closeLeases(2);
    else if (chance < 0.91) await this.#end(region);
    else if (chance < 0.95) await region.merge(this.#between(1, 6));
    else for (const policy of POLICIES) await this.#home.mergeSpend(policy, this.#between(1, 6));
  }

  #admit(region: Region, proxy: SimulatedProxy): void {
    if (proxy.inFlight.length >= 8) return;
    const reserve = this.#between(5, 40);
    const most = this.#options.mode === 'hard' ? reserve : 2 * reserve;
    const cost = this.#random() < 0.3 ? most : this.#between(0, most);
    const window = this.#window();
    const chain = [counter('A', 0, window), counter('P', 0, window)];
    const accounts = chain.map((of) => proxy.account(of));
    const short = accounts.filter((account) => headroom(account) < reserve);
    const due = short.filter((account) => this.#step - account.askedStep >= RETRY_STEPS);
    if (due.length > 0) this.#proxyAsks(region, proxy, due, reserve);
    if (short.length > 0) return;
    for (const account of accounts) account.reserved += reserve;
    const request = { id: ++this.#ids, reserve: money(reserve), cost: money(cost), admittedStep: this.#step };
    const asked = { policy: 'A', customer: 'unknown' } as const;
    proxy.inFlight.push({ ...request, asked, model: 'other', admittedOn: chain, chargedTo: chain });
    for (const of of chain) {
      this.#bill.charge(of, cost);
      this.#bill.noteOverage(of, proxy.holder, proxy.overageInFlight(of));
      this.#bill.check(of);
    }
  }

  #proxyAsks(region: Region, proxy: SimulatedProxy, due: readonly LeaseAccount[], reserve: number): void {
    const calls = due.map((account) => {
      account.askedStep = this.#step;
      const minimum = reserve - Math.min(0, headroom(account));
      return callOf(account, Math.max(minimum, this.#between(20, 80)), minimum);
    });
    this.#send(region, { is: 'call', to: 'region', holder: proxy.holder, calls });
  }

  #proxyGivesBack(region: Region, proxy: SimulatedProxy): void {
    const calls = [...proxy.accounts.values()].map((account) => {
      account.returned += Math.max(0, headroom(account));
      return callOf(account, 0, 0);
    });
    if (calls.length > 0) this.#send(region, { is: 'call', to: 'region', holder: proxy.holder, calls });
  }

  #settle(region: Region, proxy: SimulatedProxy): void {
    const [request] = proxy.inFlight.splice(Math.floor(this.#random() * proxy.inFlight.length), 1);
    if (!request) return;
    for (const of of request.admittedOn) {
      const account = proxy.account(of);
      account.reserved -= request.reserve.money;
      account.spent += request.cost.money;
    }
    this.#write(region, proxy, request, request.cost);
  }

  #write(region: Region, proxy: SimulatedProxy, request: InFlight, cost: Amounts): void {
    const { id, reserve, admittedOn, admittedStep } = request;
    const event = {
      id,
      holder: proxy.holder,
      n: ++proxy.n,
      admittedOn,
      counters: admittedOn,
      cost,
      reserve,
      admittedStep,
      refused: false,
      // A proxy's leases end with the history that granted them.
      admittedIn: region.holder,
    };
    this.#spoolOf(proxy).push(event);
    this.#send(region, { is: 'event', to: 'region', event });
  }

  #spoolOf(proxy: SimulatedProxy): RegionEvent[] {
    const spool = this.#spools.get(id(proxy.holder)) ?? [];
    this.#spools.set(id(proxy.holder), spool);
    return spool;
  }

  /** The process dies. Its successor settles the orphaned requests at their reservations. */
  async #crash(region: Region, proxy: SimulatedProxy): Promise<void> {
    const before = proxy.holder;
    for (const orphan of proxy.inFlight) this.#write(region, proxy, orphan, orphan.reserve);
    for (const event of this.#spoolOf(proxy))
      if (this.#random() < 0.5) this.#send(region, { is: 'event', to: 'region', event });
    this.#send(region, { is: 'end', to: 'region', holder: before, lastN: proxy.n });
    proxy.restart();
    region.register(proxy, before);
  }

  /** Spools outlive it in half of the cases: their events reach the region's next history. */
  async #loseDatabase(region: Region): Promise<void> {
    const before = region.holder;
    const spools = this.#random() < 0.5 ? region.proxies.flatMap((proxy) => this.#spoolOf(proxy)) : [];
    for (let i = this.#messages.length - 1; i >= 0; i--) {
      const one = this.#messages[i];
      if (one?.region === region && one.message.to !== 'home') this.#messages.splice(i, 1);
    }
    region.startAnew();
    this.#abandoned.add(id(before));
    for (const event of spools) this.#send(region, { is: 'event', to: 'region', event });
    if (id(region.holder) !== id(before)) await this.#home.register(region.holder, before);
  }

  async #changeLimit(): Promise<void> {
    const policy = this.#pick(['P', 'A'] as const);
    this.#limits[policy] = this.#between(50, 500);
    await this.#home.setLimit(policy, this.#limits[policy], this.#step);
    const current = counter(policy, 0, this.#window());
    if (!this.#bill.isOpen(current)) return;
    this.#bill.allow(current, Math.max(this.#limits[policy], await this.#home.exposure(current)));
    this.#bill.check(current);
  }

  /**
   * A region shuts down and starts on an empty database. Its proxies shut down first. Once none of their leases holds anything, the region
   * tells home how many events it had.
   */
  async #end(region: Region): Promise<void> {
    if (this.#options.fault === 'ends-before-its-proxies') return this.#declareEnd(region);
    if (!this.#ending.has(region)) {
      this.#ending.add(region);
      for (const proxy of region.proxies) {
        while (proxy.inFlight.length > 0) this.#settle(region, proxy);
        await this.#crash(region, proxy);
      }
    }
    const isBusy = this.#messages.some((one) => one.region === region && one.message.to !== 'home');
    if (isBusy || (await region.held()).length > 0) return;
    this.#declareEnd(region);
    const before = region.holder;
    region.startAnew();
    await this.#home.register(region.holder, before);
    this.#ending.delete(region);
  }

  #declareEnd(region: Region): void {
    this.#send(region, { is: 'end', to: 'home', holder: region.holder, lastN: region.last });
  }

  #send(region: Region, message: Message): void {
    this.#messages.push({ region, message });
    if (message.is === 'event' && this.#random() < 0.2) this.#messages.push({ region, message });
  }

  async #deliver(isReliable: boolean): Promise<void> {
    const index = Math.floor(this.#random() * this.#messages.length);
    const one = this.#messages[index];
    if (!one) return;
    const { region, message } = one;
    const passesBorder = message.to === 'home' || (message.is === 'grants' && message.to === 'region');
    if (passesBorder && !isReliable && this.#step < (this.#cutUntil[region.index] ?? 0)) return;
    // Usage is late more often than calls.
    if (!isReliable && message.is === 'event' && this.#random() < 0.5) return;
    if (isReliable || this.#random() > 0.2) {
      this.#messages[index] = this.#messages.at(-1) as Sent;
      this.#messages.pop();
    }
    const isLost = !isReliable && (message.is === 'call' || message.is === 'grants') && this.#random() < 0.12;
    if (!isLost) await this.#arrive(region, message);
  }

  async #arrive(region: Region, message: Message): Promise<void> {
    if (message.is === 'event') await this.#recordAt(region, message);
    else if (message.is === 'end') {
      const { holder, lastN } = message;
      if (message.to === 'home') await this.#home.declareLast(holder, lastN, this.#step);
      else await region.declareLast(holder, lastN, this.#step);
    } else if (message.is === 'grants') {
      const { to, holder } = message;
      const proxy = region.proxies.find(({ index }) => index === holder.proxy);
      applyGrants(to === 'region' ? region.atHome : proxy, message);
    } else if (message.to === 'home') {
      for (const { counter: of } of message.calls)
        if (!this.#bill.isOpen(of)) this.#bill.allow(of, this.#limits[of.policy as 'P' | 'A']);
      const answers = await this.#home.call(message.holder, message.calls, this.#step);
      this.#send(region, { is: 'grants', to: 'region', ...grantsOf(message, answers) });
    } else await this.#answerAtRegion(region, message);
  }

  async #answerAtRegion(region: Region, call: HolderCalls): Promise<void> {
    const { answers, short } = await region.answer(call, this.#step);
    this.#send(region, { is: 'grants', to: 'proxy', ...grantsOf(call, answers) });
    for (const { account, minimum } of short) {
      const asked = await region.ask(account, minimum, this.#between(40, 160), this.#step);
      if (asked) this.#send(region, { is: 'call', to: 'home', ...asked });
    }
  }

  async #recordAt(region: Region, message: Extract<Message, { is: 'event' }>): Promise<void> {
    const { event } = message;
    if (message.to === 'home') {
      this.#recorded.set(event.id, event);
      const isNew = this.#options.fault === 'forwards-as-new';
      await this.#home.record(isNew ? { ...event, id: ++this.#deliveries } : event);
      return;
    }
    const forwarded = await region.record(message.event);
    if (forwarded) this.#send(region, { is: 'event', to: 'home', event: forwarded });
  }

  async #deliverAll(): Promise<void> {
    while (this.#messages.length > 0) await this.#deliver(true);
  }

  async #comeToRest(): Promise<void> {
    for (const region of this.#regions)
      for (const proxy of region.proxies) while (proxy.inFlight.length > 0) this.#settle(region, proxy);
    // Twice each: the first time, a holder may still learn of a grant.
    for (let round = 0; round < 2; round++) {
      for (let turn = 0; turn < 2; turn++) {
        await this.#deliverAll();
        for (const region of this.#regions)
          for (const proxy of region.proxies) this.#proxyGivesBack(region, proxy);
      }
      await this.#deliverAll();
      for (const region of this.#regions)
        this.#send(region, { is: 'call', to: 'home', ...(await region.giveBack()) });
      await this.#deliverAll();
    }
    await this.#checkRest();
  }

  async #mergeAll(): Promise<void> {
    const all = Number.POSITIVE_INFINITY;
    for (const policy of POLICIES) await this.#home.mergeSpend(policy, all);
    for (const region of this.#regions) await region.merge(all);
  }

  /** Everything ends: then nothing is held anywhere but by what was lost. */
  async #endAll(): Promise<void> {
    await this.#mergeAll();
    for (const region of this.#regions) {
      const held = await region.held();
      if (held.length > 0) this.#fail(`region ${region.index} still holds ${JSON.stringify(held)}`);
      this.#declareEnd(region);
    }
    await this.#deliverAll();
    await this.#checkRest();
  }

  async #checkRest(): Promise<void> {
    await this.#mergeAll();
    while ((await this.#home.closeLeases(2)).length > 0);
    const { buckets, held } = await this.#home.atRest();
    for (const { holder, key, hold } of held) {
      if (this.#abandoned.has(id(holder))) continue;
      this.#fail(`phantom: region ${holder.proxy} in epoch ${holder.epoch} still holds ${hold} of ${key}`);
    }
    for (const { key, spent } of buckets) {
      let expected = 0;
      for (const event of this.#recorded.values())
        if (event.admittedOn.some((of) => of.key === key)) expected += event.cost.money;
      if (spent !== expected) this.#fail(`${key} has ${spent} spent; its events add up to ${expected}`);
    }
  }

  #fail(what: string): never {
    throw new Error(`seed ${this.#options.seed}, step ${this.#step}: ${what}`);
  }

  #window(): number {
    return Math.floor(this.#step / this.#options.windowSteps);
  }

  #between(low: number, high: number): number {
    return low + Math.floor(this.#random() * (high - low + 1));
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)] as T;
  }
}

/** Policies of regions limit no more than money. */
function money(amount: number): Amounts {
  return { money: amount, requests: 1, tokens: 0 };
}

function id({ proxy, epoch }: Holder): string {
  return `${proxy}/${epoch}`;
}
