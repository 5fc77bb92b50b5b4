/** The policies of a simulated world: A and B are children of P. */
export type PolicyName = 'P' | 'A' | 'B';
export const POLICIES: readonly PolicyName[] = ['P', 'A', 'B'];

export interface Counter {
  /** Names it within its world. */
  readonly key: string;
  readonly policy: PolicyName;
  readonly version: number;
  readonly window: number;
}

export function counter(policy: PolicyName, version: number, window: number): Counter {
  return { key: `${policy}|${version}|${window}`, policy, version, window };
}

/** A proxy in one run of its process. */
export interface Holder {
  readonly proxy: number;
  readonly epoch: number;
}

export interface SimulatedCall {
  readonly counter: Counter;
  readonly seq: number;
  /** Cumulative, unless the fault `returns-as-deltas` is planted. */
  readonly returned: number;
  readonly want: number;
  readonly minimum: number;
  /** Only by the fault `close-returns-unsettled`: to be taken as given back but for what the ledger has settled. */
  readonly release: boolean;
}

export interface SimulatedEvent {
  readonly id: number;
  readonly holder: Holder;
  readonly n: number;
  /** Those that it was admitted on, unless the fault `stamp-at-settle` is planted. */
  readonly counters: readonly Counter[];
  readonly cost: number;
  readonly reserve: number;
  readonly admittedStep: number;
}

/** What a plausible but wrong reading of the rules would do. Each loses money, or room for good. */
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
  | 'stamp-at-settle';

interface BucketAtRest {
  readonly key: string;
  readonly spent: number;
  readonly leased: number;
}

interface HeldAtRest {
  readonly holder: Holder;
  readonly key: string;
  readonly hold: number;
}

/** The state machine under test: the reference model, or the ledger's SQL. */
export interface LeaseLedger {
  start(limits: Readonly<Record<PolicyName, number>>): void | Promise<void>;
  /** A proxy's process started, in place of its earlier one where there was any. */
  register(holder: Holder, before: Holder | undefined): void | Promise<void>;
  /** Answers what was granted so far, in the order of the calls. */
  call(
    holder: Holder,
    calls: readonly SimulatedCall[],
    step: number,
  ): readonly number[] | Promise<readonly number[]>;
  record(event: SimulatedEvent): void | Promise<void>;
  /** The epoch ended, and wrote this many events. */
  declareLast(holder: Holder, lastN: number, step: number): void | Promise<void>;
  setLimit(policy: PolicyName, limit: number): void | Promise<void>;
  /** A policy's definition changed: it counts anew, in this counter. */
  startCounter(next: Counter, step: number): void | Promise<void>;
  /** Some holder was silent for too long; `which` picks one. By the rules, nothing happens. */
  expire(which: number): void | Promise<void>;
  /** All that is spent or may be spent of a counter. */
  exposure(of: Counter): number | Promise<number>;
  atRest(): AtRest | Promise<AtRest>;
}

export interface AtRest {
  readonly buckets: readonly BucketAtRest[];
  readonly held: readonly HeldAtRest[];
}
