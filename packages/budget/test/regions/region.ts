import {
  type Counter,
  counter,
  type Holder,
  type LeaseLedger,
  type SimulatedAnswer,
  type SimulatedCall,
  type SimulatedEvent,
} from '../../src/model/leaseLedger.ts';
import { referenceLedger } from '../../src/model/referenceLedger.ts';
import { type LeaseAccount, RETRY_STEPS, SimulatedProxy } from '../../src/model/simulatedProxy.ts';

/** Plausible but wrong readings of the rules between a region and home. Each loses money or headroom. */
export type RegionFault =
  /** The region returns what its ledger has not spent, though its proxies' leases hold it. */
  | 'returns-what-proxies-hold'
  /** It grants up to everything that it was ever allotted, whatever it returned. */
  | 'grants-what-it-returned'
  /** Home takes back the allotment of a region that it has not heard of. */
  | 'silence-refunds'
  /** Home counts an event by the number of its delivery, not by its id. */
  | 'forwards-as-new'
  /** The region says that it ended before its proxies' epochs are closed. */
  | 'ends-before-its-proxies'
  /** A region whose database is lost goes on in the same epoch. */
  | 'lost-keeps-epoch'
  /** It counts usage that an earlier history admitted, which its own allotment does not cover. */
  | 'counts-earlier-usage';

/** Usage, with the history of the region that granted what it was spent from. */
export interface RegionEvent extends SimulatedEvent {
  readonly admittedIn: Holder;
}

/** It counts, and says nothing of whether an epoch is complete. */
const UNNUMBERED = 0;

interface RegionOptions {
  readonly index: number;
  readonly proxies: number;
  readonly windowSteps: number;
  readonly fault: RegionFault | undefined;
}

/** What home learns of a region. */
export interface RegionCall {
  readonly holder: Holder;
  readonly calls: readonly SimulatedCall[];
}

/**
 * A region: proxies, a ledger whose limits are what home has allotted, and the stream that home reads. Its own lease at home has an account
 * as a proxy's has: the ledger's exposure is what is used of it.
 */
export class Region {
  readonly index: number;
  readonly proxies: readonly SimulatedProxy[];
  readonly #windowSteps: number;
  readonly #fault: RegionFault | undefined;
  #ledger: LeaseLedger;
  /** Of the database's history: it changes when the database is lost. */
  #epoch = 0;
  #accounts = new Map<string, LeaseAccount>();
  #recorded = new Set<number>();
  /** The number of the newest event that home reads of this history. */
  last = 0;

  constructor({ index, proxies, windowSteps, fault }: RegionOptions) {
    this.index = index;
    this.#windowSteps = windowSteps;
    this.#fault = fault;
    this.proxies = Array.from({ length: proxies }, (_, i) => new SimulatedProxy(index * proxies + i, 0));
    this.#ledger = referenceLedger({ windowSteps });
    this.#startLedger();
  }

  get holder(): Holder {
    return { proxy: this.index, epoch: this.#epoch };
  }

  #startLedger(): void {
    this.#ledger.start({ P: 0, A: 0, B: 0 });
    for (const proxy of this.proxies) this.#ledger.register(proxy.holder, undefined);
  }

  /** On an empty database, in another epoch. If the earlier one was lost, what home allotted to it stays held there. */
  startAnew(): void {
    if (this.#fault !== 'lost-keeps-epoch') this.#epoch++;
    this.#ledger = referenceLedger({ windowSteps: this.#windowSteps });
    this.#accounts = new Map();
    this.#recorded = new Set();
    this.last = 0;
    for (const proxy of this.proxies) proxy.restart();
    this.#startLedger();
  }

  /** Answers a proxy's calls from what home allotted, and returns the accounts that were too small. */
  async answer({ holder, calls }: RegionCall, step: number) {
    await this.#setLimits(step);
    const short: { readonly account: LeaseAccount; readonly minimum: number }[] = [];
    const answers: SimulatedAnswer[] = [];
    for (const call of calls) {
      const before = await this.#ledger.exposure(call.counter);
      const [answer] = await this.#ledger.call(holder, [call], step);
      answers.push(answer as SimulatedAnswer);
      const isShort = call.want > 0 && (await this.#ledger.exposure(call.counter)) <= before;
      if (isShort) short.push({ account: this.#account(call.counter), minimum: call.minimum });
    }
    return { answers, short };
  }

  register(proxy: SimulatedProxy, before: Holder): void {
    this.#ledger.register(proxy.holder, before);
  }

  /** Returns what home reads of it, if it is new. Usage of an earlier history settles that one's lease, and counts nowhere here. */
  async record(event: RegionEvent): Promise<SimulatedEvent | undefined> {
    const { admittedIn, ...usage } = event;
    const isOwn = admittedIn.epoch === this.#epoch || this.#fault === 'counts-earlier-usage';
    if (!isOwn) return { ...usage, holder: admittedIn, n: UNNUMBERED };
    await this.#ledger.record(usage);
    if (this.#recorded.has(event.id)) return undefined;
    this.#recorded.add(event.id);
    return { ...usage, holder: this.holder, n: ++this.last };
  }

  async declareLast(holder: Holder, lastN: number, step: number): Promise<void> {
    await this.#ledger.declareLast(holder, lastN, step);
  }

  async #closeLeases(): Promise<void> {
    while ((await this.#ledger.closeLeases(2)).length > 0);
  }

  /** Asks home for more, once at a time. `minimum`: what the region's proxy can't do without. */
  async ask(
    account: LeaseAccount,
    minimum: number,
    want: number,
    step: number,
  ): Promise<RegionCall | undefined> {
    if (step - account.askedStep < RETRY_STEPS) return undefined;
    account.askedStep = step;
    const debt = Math.max(0, -(await this.#unused(account)));
    return this.#call([account], { want: Math.max(want, minimum + debt), minimum: minimum + debt });
  }

  /** Returns what neither the ledger has spent nor a proxy's lease holds. */
  async giveBack(): Promise<RegionCall> {
    await this.#closeLeases();
    const accounts = [...this.#accounts.values()];
    for (const account of accounts) account.returned += Math.max(0, await this.#unused(account));
    return this.#call(accounts, { want: 0, minimum: 0 });
  }

  #call(accounts: readonly LeaseAccount[], { want, minimum }: { want: number; minimum: number }): RegionCall {
    const calls = accounts.map((account) => {
      account.seq++;
      const { counter: of, seq, returned } = account;
      return { counter: of, seq, returned, want, minimum, standing: 0, release: false };
    });
    return { holder: this.holder, calls };
  }

  apply(holder: Holder, of: Counter, granted: number): void {
    if (holder.epoch !== this.#epoch) return;
    const account = this.#account(of);
    account.granted = Math.max(account.granted, granted);
  }

  async #unused(account: LeaseAccount): Promise<number> {
    const { granted, returned, counter: of } = account;
    if (this.#fault !== 'returns-what-proxies-hold')
      return granted - returned - (await this.#ledger.exposure(of));
    const { buckets } = await this.#ledger.atRest();
    return granted - returned - (buckets.find(({ key }) => key === of.key)?.spent ?? 0);
  }

  /** The limit of a region's counter is what home allotted and has not got back. */
  async #setLimits(step: number): Promise<void> {
    for (const policy of ['P', 'A'] as const) {
      const account = this.#account(counter(policy, 0, Math.floor(step / this.#windowSteps)));
      const returned = this.#fault === 'grants-what-it-returned' ? 0 : account.returned;
      await this.#ledger.setLimit(policy, account.granted - returned, step);
    }
  }

  #account(of: Counter): LeaseAccount {
    const known = this.#accounts.get(of.key);
    if (known) return known;
    const none = { granted: 0, returned: 0, unsentReturns: 0, spent: 0, reserved: 0, seq: 0, standing: 0 };
    const account = { counter: of, ...none, exhausted: false, askedStep: -RETRY_STEPS };
    this.#accounts.set(of.key, account);
    return account;
  }

  /** What its proxies' leases hold. */
  async held() {
    await this.#closeLeases();
    return (await this.#ledger.atRest()).held;
  }

  async isAtRest(): Promise<boolean> {
    return (await this.held()).length === 0;
  }
}
