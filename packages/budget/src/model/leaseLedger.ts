/**
 * The policies of a simulation, and the further limits of one: A and B are children of P. P has three further limits, two of them with
 * two amounts: the money M and tokens T of attempts that go to one model, and the money C and number of requests R of each customer. F is
 * the money of all customers, in windows that open on first use.
 */
export type PolicyName = 'P' | 'A' | 'B' | FurtherName;
export type FurtherName = 'M' | 'T' | 'C' | 'R' | 'F';
export const MAIN_LIMITS = ['P', 'A', 'B'] as const;
export const FURTHER_LIMITS: readonly FurtherName[] = ['M', 'T', 'C', 'R', 'F'];
export const POLICIES: readonly PolicyName[] = [...MAIN_LIMITS, ...FURTHER_LIMITS];

/** What an attempt takes of each kind of counter. */
export interface Amounts {
  readonly money: number;
  readonly requests: number;
  readonly tokens: number;
}

/** What it takes of this one. */
export function amountIn({ policy }: Pick<Counter, 'policy'>, { money, requests, tokens }: Amounts): number {
  if (policy === 'R') return requests;
  return policy === 'T' ? tokens : money;
}

/** Whether a limit has a counter for each customer. */
export function isByCustomer(policy: PolicyName): policy is 'C' | 'R' {
  return policy === 'C' || policy === 'R';
}

/** Whom a counter of C or R counts: a customer, all requests that name none, or all customers for whom no counter is left. */
export type Customer = 'ann' | 'bob' | 'cy' | 'unknown' | 'others';
export const CUSTOMERS: readonly Customer[] = ['ann', 'bob', 'cy', 'unknown', 'others'];
/** How many counters of customers one key may open in a window of C, and of R. */
export const MAX_COUNTERS = 1;
/** The limit of C's counter `others`. */
export const OTHERS_LIMIT = 60;

export interface Counter {
  /** Unique within its simulation. */
  readonly key: string;
  readonly policy: PolicyName;
  readonly version: number;
  /** Its number; of F, the step in which it opened. */
  readonly window: number;
  /** Only of C and R. */
  readonly customer?: Customer;
}

/** How long F's windows are, in steps: a third of the others. */
export function firstUseSteps(windowSteps: number): number {
  return Math.floor(windowSteps / 3);
}

export function counter(policy: PolicyName, version: number, window: number, customer?: Customer): Counter {
  const key = `${policy}|${version}|${window}`;
  return customer
    ? { key: `${key}|${customer}`, policy, version, window, customer }
    : { key, policy, version, window };
}

/** What an override is of: a policy's counters, or the counter of one customer in each window. */
export type Overridden = Pick<Counter, 'policy' | 'customer'>;
export const OVERRIDABLE: readonly Overridden[] = [
  ...MAIN_LIMITS.map((policy) => ({ policy })),
  { policy: 'M' },
  ...(['ann', 'bob', 'cy'] as const).map((customer) => ({ policy: 'C' as const, customer })),
];

/** Unique among them. */
export function overriddenName({ policy, customer }: Overridden): string {
  return customer ? `${policy}|${customer}` : policy;
}

/** Whether a limit on the number of counters applies to it. */
export function isOfCustomer({ customer }: Counter): boolean {
  return customer !== undefined && customer !== 'unknown' && customer !== 'others';
}

/** One run of a proxy's process. */
export interface Holder {
  readonly proxy: number;
  readonly epoch: number;
}

export interface SimulatedCall {
  readonly counter: Counter;
  /** The policy of the key whose request names it: it opens the counter, if no other did. */
  readonly namedBy: 'A' | 'B';
  readonly seq: number;
  /** Cumulative, unless the fault `returns-as-deltas` is planted. */
  readonly returned: number;
  readonly want: number;
  readonly minimum: number;
  /** What the proxy takes its lease to keep. */
  readonly standing: number;
  /** Only with the fault `close-returns-unsettled`: everything that the ledger has not settled counts as returned. */
  readonly release: boolean;
}

export interface SimulatedEvent {
  readonly id: number;
  readonly holder: Holder;
  readonly n: number;
  readonly admittedOn: readonly Counter[];
  /** What it is charged to: the same, unless a fault is planted. */
  readonly counters: readonly Counter[];
  readonly cost: Amounts;
  readonly reserve: Amounts;
  readonly admittedStep: number;
  /** Its usage is beyond the absolute bound: it goes to quarantine, with its number. */
  readonly refused: boolean;
}

export type Decision = 'released' | 'discarded';

/** Plausible but wrong readings of the rules. Each loses money or headroom. */
export type Fault =
  | 'settle-by-reserve'
  | 'close-returns-unsettled'
  | 'expiry-refunds'
  | 'expiry-reversed-whole'
  | 'expiry-reversed-by-cost'
  | 'restart-refunds'
  | 'grants-again'
  | 'grants-as-deltas'
  | 'returns-as-deltas'
  | 'counter-not-carried'
  | 'forget-overage'
  | 'stamp-at-settle'
  | 'standing-for-each'
  | 'override-outlives'
  | 'override-end-refunds'
  | 'override-of-all-customers'
  | 'override-leaves-others'
  | 'replaced-charged-too'
  | 'replacement-not-reserved'
  | 'replacement-leaves-parents'
  | 'close-returns-quarantined'
  | 'closes-superseded'
  | 'closes-one-portion'
  | 'quarantined-not-charged'
  | 'quarantine-lacks-number'
  | 'release-counts-again'
  | 'release-settles-nothing'
  | 'discard-counts'
  | 'grant-ignores-appended'
  | 'merge-settles-first'
  | 'merged-again'
  | 'merge-lost'
  | 'failover-keeps-set'
  | 'refused-keeps-part'
  | 'matched-at-settlement'
  | 'unknown-unlimited'
  | 'others-by-the-limit'
  | 'others-not-reserved'
  | 'counters-unbounded'
  | 'counters-of-all-keys'
  | 'counts-by-cost'
  | 'counts-not-reserved'
  | 'crash-forgets-counts'
  | 'windows-overlap'
  | 'window-outlives'
  | 'refused-opens-window';

/** Names a lease. */
export interface LeaseName {
  readonly holder: Holder;
  /** Of its counter. */
  readonly key: string;
}

export interface SimulatedAnswer {
  /** Cumulative. */
  readonly granted: number;
  /** What the lease may keep while nothing is spent on it. */
  readonly standing: number;
  /** Nothing was granted, since what is spent and the minimum exceed the limit. */
  readonly exhausted: boolean;
  /** Its key may open no counter more: the request reserves from the counter `others` in its place. */
  readonly others: boolean;
}

/** Larger shares than in the product, so that those of three proxies meet the bound. */
export const STANDING = { each: 20, together: 10 } as const;

interface BucketAtRest {
  readonly key: string;
  readonly spent: number;
  readonly leased: number;
}

interface HeldAtRest extends LeaseName {
  readonly hold: number;
}

export interface SimulatedOverride {
  readonly limit: number;
  /** The first step in which it is over. */
  readonly ends: number;
}

/** The state machine under test: the reference model, or the ledger's SQL. */
export interface LeaseLedger {
  start(limits: Readonly<Record<PolicyName, number>>): void | Promise<void>;
  /** A proxy's process started, in place of an earlier one if there was one. */
  register(holder: Holder, before: Holder | undefined): void | Promise<void>;
  /** Answers in the order of the calls. */
  call(
    holder: Holder,
    calls: readonly SimulatedCall[],
    step: number,
  ): readonly SimulatedAnswer[] | Promise<readonly SimulatedAnswer[]>;
  /**
   * The step in which F's current window opened; undefined if it has none, since the last one is over. With `opens`, one opens now
   * then: an attempt reserved from all else.
   */
  windowOf(opens: boolean, step: number): number | undefined | Promise<number | undefined>;
  record(event: SimulatedEvent): void | Promise<void>;
  /** An operator decides on a quarantined event, perhaps again: the first decision counts. */
  decide(event: SimulatedEvent, decision: Decision, step: number): void | Promise<void>;
  /** The epoch ended after this many events. */
  declareLast(holder: Holder, lastN: number, step: number): void | Promise<void>;
  /**
   * Closes at most so many leases of epochs that are closed, and returns them; none if there are no more. Which ones come first is no
   * rule: given `chosen`, it closes exactly these, or throws if one may not be closed.
   */
  closeLeases(
    most: number,
    chosen?: readonly LeaseName[],
  ): readonly LeaseName[] | Promise<readonly LeaseName[]>;
  /** Merges at most so much of what was appended to a policy's counters. When and how much is no rule. */
  mergeSpend(policy: PolicyName, most: number): void | Promise<void>;
  /** The worker that merges dies, in the middle of it: between what it adds to the counters and what it takes from the list. */
  crashMerging(policy: PolicyName, most: number): void | Promise<void>;
  setLimit(policy: PolicyName, limit: number, step: number): void | Promise<void>;
  /** Another limit on a policy's counters or on a customer's, open or not, in place of its own, from this step until the step `ends`. */
  startOverride(of: Overridden, override: SimulatedOverride, step: number): void | Promise<void>;
  /** An operator ends it before its time. */
  endOverride(of: Overridden, step: number): void | Promise<void>;
  /** Overrides whose end has come are marked, sooner or later: by the rules, their limits ended with the time. */
  endDueOverrides(step: number): void | Promise<void>;
  /** A policy's definition changed, which starts this counter. */
  startCounter(next: Counter, step: number): void | Promise<void>;
  /** A holder was silent for too long; `which` selects it. By the rules, nothing happens. */
  expire(which: number): void | Promise<void>;
  /** Everything that is spent or may still be spent of a counter, be it merged or not. */
  exposure(of: Counter): number | Promise<number>;
  atRest(): AtRest | Promise<AtRest>;
}

export interface AtRest {
  readonly buckets: readonly BucketAtRest[];
  readonly held: readonly HeldAtRest[];
}
