import {
  counter,
  type Holder,
  type LeaseLedger,
  POLICIES,
  type SimulatedAnswer,
  type SimulatedEvent,
} from '../../src/model/leaseLedger.ts';
import { referenceLedger } from '../../src/model/referenceLedger.ts';
import { type LeaseAccount, RETRY_STEPS, SimulatedProxy } from '../../src/model/simulatedProxy.ts';
import { callOf, type HolderCalls } from './holderMessages.ts';

/** Plausible but wrong readings of the rules between a region and home. Each loses money or headroom. */
export const REGION_FAULTS = [
  /** The region returns what its ledger has not spent, though its proxies' leases hold it. */
  'returns-what-proxies-hold',
  /** It grants up to everything that it was ever allotted, whatever it returned. */
  'grants-what-it-returned',
  /** Home takes back the allotment of a region that it has not heard of. */
  'silence-refunds',
  /** Home counts an event by the number of its delivery, not by its id. */
  'forwards-as-new',
  /** The region says that it ended before its proxies' epochs are closed. */
  'ends-before-its-proxies',
  /** A region whose database is lost goes on in the same epoch. */
  'lost-keeps-epoch',
  /** It counts usage that an earlier history admitted, which its own allotment does not cover. */
  'counts-earlier-usage',
] as const;
export type RegionFault = (typeof REGION_FAULTS)[number];

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
  /** What it is to home: a holder, as a proxy is to it. The epoch is of its database's history. */
  readonly atHome: SimulatedProxy;
  #recorded = new Set<number>();

  constructor({ index, proxies, windowSteps, fault }: RegionOptions) {
    this.index = index;
    this.#windowSteps = windowSteps;
    this.#fault = fault;
    this.atHome = new SimulatedProxy(index, 0);
    this.proxies = Array.from({ length: proxies }, (_, i) => new SimulatedProxy(index * proxies + i, 0));
    this.#ledger = referenceLedger({ windowSteps });
    this.#startLedger();
  }

  get holder(): Holder {
    return this.atHome.holder;
  }

  /** The number of the newest event that home reads of this history. */
  get last(): number {
    return this.#recorded.size;
  }

  #startLedger(): void {
    this.#ledger.start({ P: 0, A: 0, B: 0, M: 0, T: 0, C: 0, R: 0, F: 0 });
    for (const proxy of this.proxies) this.#ledger.register(proxy.holder, undefined);
  }

  /** On an empty database, in another epoch. If the earlier one was lost, what home allotted to it stays held there. */
  startAnew(): void {
    this.atHome.restart();
    if (this.#fault === 'lost-keeps-epoch') this.atHome.epoch--;
    this.#ledger = referenceLedger({ windowSteps: this.#windowSteps });
    this.#recorded = new Set();
    for (const proxy of this.proxies) proxy.restart();
    this.#startLedger();
  }

  /** Answers a proxy's calls from what home allotted, and returns the accounts that were too small. */
  async answer({ holder, calls }: HolderCalls, step: number) {
    await this.#setLimits(step);
    const short: { readonly account: LeaseAccount; readonly minimum: number }[] = [];
    const answers: SimulatedAnswer[] = [];
    for (const call of calls) {
      const before = await this.#ledger.exposure(call.counter);
      const [answer] = await this.#ledger.call(holder, [call], step);
      answers.push(answer as SimulatedAnswer);
      const isShort = call.want > 0 && (await this.#ledger.exposure(call.counter)) <= before;
      if (isShort) short.push({ account: this.atHome.account(call.counter), minimum: call.minimum });
    }
    return { answers, short };
  }

  register(proxy: SimulatedProxy, before: Holder): void {
    this.#ledger.register(proxy.holder, before);
  }

  /** Returns what home reads of it, if it is new. Usage of an earlier history settles that one's lease, and counts nowhere here. */
  async record(event: RegionEvent): Promise<SimulatedEvent | undefined> {
    const { admittedIn, ...usage } = event;
    const isOwn = admittedIn.epoch === this.holder.epoch || this.#fault === 'counts-earlier-usage';
    if (!isOwn) return { ...usage, holder: admittedIn, n: UNNUMBERED };
    await this.#ledger.record(usage);
    if (this.#recorded.has(event.id)) return undefined;
    this.#recorded.add(event.id);
    return { ...usage, holder: this.holder, n: this.last };
  }

  /** Merges at most so much of what was appended to each policy's counters. */
  async merge(most: number): Promise<void> {
    for (const policy of POLICIES) await this.#ledger.mergeSpend(policy, most);
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
  ): Promise<HolderCalls | undefined> {
    if (step - account.askedStep < RETRY_STEPS) return undefined;
    account.askedStep = step;
    const debt = Math.max(0, -(await this.#unused(account)));
    const call = callOf(account, Math.max(want, minimum + debt), minimum + debt);
    return { holder: this.holder, calls: [call] };
  }

  /** Returns what neither the ledger has spent nor a proxy's lease holds. */
  async giveBack(): Promise<HolderCalls> {
    await this.#closeLeases();
    const accounts = [...this.atHome.accounts.values()];
    for (const account of accounts) account.returned += Math.max(0, await this.#unused(account));
    return { holder: this.holder, calls: accounts.map((account) => callOf(account, 0, 0)) };
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
      const account = this.atHome.account(counter(policy, 0, Math.floor(step / this.#windowSteps)));
      const returned = this.#fault === 'grants-what-it-returned' ? 0 : account.returned;
      await this.#ledger.setLimit(policy, account.granted - returned, step);
    }
  }

  /** What its proxies' leases hold. */
  async held() {
    await this.#closeLeases();
    return (await this.#ledger.atRest()).held;
  }
}
