import {
  type Amounts,
  amountIn,
  type Counter,
  type Customer,
  type Holder,
  type SimulatedEvent,
} from './leaseLedger.ts';

/** A request at the vendor; the vendor's bill already has what it costs. */
export interface InFlight {
  readonly id: number;
  readonly reserve: Amounts;
  readonly cost: Amounts;
  readonly admittedOn: readonly Counter[];
  /** By the rules, the same. */
  readonly chargedTo: readonly Counter[];
  readonly admittedStep: number;
  readonly asked: Asked;
  readonly model: Model;
}

/** Only the limits M and T tell them apart. */
export type Model = 'limited' | 'other';

/** What a request is for, whichever model it goes to. */
export interface Asked {
  readonly policy: 'A' | 'B';
  /** `unknown`: it names none. Undefined: no further limit counts the request. */
  readonly customer: Customer | undefined;
}

/** A proxy's account of a lease. */
export interface LeaseAccount {
  readonly counter: Counter;
  /** Whose request asked for it first. */
  readonly namedBy: 'A' | 'B';
  granted: number;
  returned: number;
  unsentReturns: number;
  spent: number;
  reserved: number;
  seq: number;
  /** What it may keep while nothing is spent on it. */
  standing: number;
  /** By the newest answer, what is spent leaves no room for a request. */
  exhausted: boolean;
  /** By the newest answer, `others` stands in for it. */
  others: boolean;
  /** When the proxy last asked for more. */
  askedStep: number;
}

/** How long a proxy waits for a response before it asks again. */
export const RETRY_STEPS = 6;

/** A proxy: what its process knows, and its spool. */
export class SimulatedProxy {
  readonly index: number;
  readonly clockSkew: number;
  epoch = 0;
  /** The version of policy A's counter that it knows. */
  version = 0;
  accounts = new Map<string, LeaseAccount>();
  /** When the window of F opened that it knows. */
  opened: number | undefined;
  inFlight: InFlight[] = [];
  /** Its requests whose usage it knows to be absurd: it charged their reservations. */
  quarantined: InFlight[] = [];
  spool: SimulatedEvent[] = [];
  n = 0;

  constructor(index: number, clockSkew: number) {
    this.index = index;
    this.clockSkew = clockSkew;
  }

  get holder(): Holder {
    return { proxy: this.index, epoch: this.epoch };
  }

  account(of: Counter, namedBy: 'A' | 'B' = 'A'): LeaseAccount {
    let account = this.accounts.get(of.key);
    if (!account) {
      account = {
        counter: of,
        namedBy,
        granted: 0,
        returned: 0,
        unsentReturns: 0,
        spent: 0,
        reserved: 0,
        seq: 0,
        standing: 0,
        exhausted: false,
        others: false,
        askedStep: -RETRY_STEPS,
      };
      this.accounts.set(of.key, account);
    }
    return account;
  }

  /** By how much its requests on a counter exceed what it charged for them: those in flight, and those that are quarantined. */
  overageInFlight(of: Counter): number {
    return [...this.inFlight, ...this.quarantined]
      .filter((request) => request.admittedOn.some(({ key }) => key === of.key))
      .reduce((sum, { cost, reserve }) => sum + Math.max(0, amountIn(of, cost) - amountIn(of, reserve)), 0);
  }

  /** A new process on the same spool: it knows nothing of the earlier one's leases. */
  restart(): void {
    this.epoch++;
    this.accounts = new Map();
    this.opened = undefined;
    this.inFlight = [];
    this.quarantined = [];
    this.spool = [];
    this.n = 0;
  }
}

/** What an account may still reserve; negative if requests exceeded their reservations. */
export function headroom({ granted, returned, spent, reserved }: LeaseAccount): number {
  return granted - returned - spent - reserved;
}
