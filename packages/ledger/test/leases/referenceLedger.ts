import type {
  AtRest,
  Counter,
  Fault,
  Holder,
  LeaseLedger,
  PolicyName,
  SimulatedCall,
  SimulatedEvent,
} from './leaseLedger.ts';

/** A lease. All amounts only grow, except `forfeited`, which only faults use. */
interface Lease {
  readonly holder: Holder;
  readonly counter: Counter;
  also: Counter | undefined;
  seq: number;
  granted: number;
  returned: number;
  settled: number;
  closed: boolean;
  forfeited: number;
}

interface Epoch {
  readonly holder: Holder;
  readonly recorded: Set<number>;
  lastN: number | undefined;
  closed: boolean;
  superseded: boolean;
}

/** The rules in their simplest form, in memory; the SQL is compared with it. `fault` breaks one of them. */
export function referenceLedger(options: {
  readonly windowSteps: number;
  readonly fault?: Fault;
}): LeaseLedger {
  const { windowSteps, fault } = options;
  const limits: Record<PolicyName, number> = { P: 0, A: 0, B: 0 };
  const versions: Record<PolicyName, number> = { P: 0, A: 0, B: 0 };
  /** By policy and window: the newest counter started in it, if it replaced an earlier one. */
  const newestIn = new Map<string, string>();
  const spent = new Map<string, number>();
  const leases = new Map<string, Lease>();
  const leasesByCounter = new Map<string, Lease[]>();
  const events = new Map<number, SimulatedEvent>();
  const epochs = new Map<string, Epoch>();

  const hold = (lease: Lease) =>
    lease.closed ? 0 : Math.max(0, lease.granted - lease.returned - lease.settled) + lease.forfeited;
  const leased = (key: string) =>
    (leasesByCounter.get(key) ?? []).reduce((sum, lease) => sum + hold(lease), 0);
  const exposure = (key: string) => (spent.get(key) ?? 0) + leased(key);
  const add = (key: string, cost: number) => spent.set(key, (spent.get(key) ?? 0) + cost);

  function leaseOf(holder: Holder, of: Counter): Lease {
    const id = leaseId(holder, of);
    let lease = leases.get(id);
    if (!lease) {
      lease = {
        holder,
        counter: of,
        also: undefined,
        seq: 0,
        granted: 0,
        returned: 0,
        settled: 0,
        closed: false,
        forfeited: 0,
      };
      leases.set(id, lease);
      holdIn(of, lease);
    }
    return lease;
  }
  function holdIn(of: Counter, lease: Lease): void {
    const held = leasesByCounter.get(of.key) ?? [];
    held.push(lease);
    leasesByCounter.set(of.key, held);
  }
  function epochOf(holder: Holder): Epoch {
    const id = holderId(holder);
    let epoch = epochs.get(id);
    if (!epoch) {
      epoch = { holder, recorded: new Set(), lastN: undefined, closed: false, superseded: false };
      epochs.set(id, epoch);
    }
    return epoch;
  }
  /** Rule 9: an epoch is closed when the ledger has all of its events. */
  function closeIfComplete(epoch: Epoch): void {
    if (epoch.closed || epoch.lastN === undefined) return;
    for (let n = 1; n <= epoch.lastN; n++) if (!epoch.recorded.has(n)) return;
    epoch.closed = true;
    for (const lease of leases.values()) if (sameHolder(lease.holder, epoch.holder)) lease.closed = true;
  }
  /** Against the rules: returns what is held and not settled. */
  function refund(lease: Lease): void {
    lease.returned = Math.max(lease.returned, lease.granted - lease.settled);
  }

  function answer(holder: Holder, call: SimulatedCall, step: number): number {
    const lease = leaseOf(holder, call.counter);
    const epoch = epochOf(holder);
    if (epoch.closed) return lease.granted;
    // Rule 4: returns are cumulative.
    lease.returned =
      fault === 'returns-as-deltas'
        ? lease.returned + call.returned
        : Math.min(Math.max(lease.returned, call.returned), lease.granted);
    if (call.release) refund(lease);
    const { policy, version, window, key } = call.counter;
    const isCurrent = version === versions[policy] && window === Math.floor(step / windowSteps);
    const isNewer = fault === 'grants-again' || call.seq > lease.seq;
    lease.seq = Math.max(lease.seq, call.seq);
    if (!isNewer || !isCurrent || epoch.superseded) return lease.granted;
    // Rule 2.
    const slice = Math.min(call.want, limits[policy] - exposure(key));
    if (slice > 0 && slice >= call.minimum) lease.granted += slice;
    return lease.granted;
  }

  /** Rule 7: settle by the cost, never by the reservation. */
  function settle(lease: Lease, event: SimulatedEvent): void {
    if (fault === 'expiry-reversed-whole') lease.forfeited = 0;
    if (fault === 'expiry-reversed-by-cost') lease.forfeited = Math.max(0, lease.forfeited - event.cost);
    lease.settled += fault === 'settle-by-reserve' ? event.reserve : event.cost;
  }

  return {
    start: (given) => void Object.assign(limits, given),
    register(holder, before) {
      epochOf(holder);
      if (!before) return;
      epochOf(before).superseded = true;
      if (fault !== 'restart-refunds') return;
      for (const lease of leases.values()) if (sameHolder(lease.holder, before)) refund(lease);
    },
    call: (holder, calls, step) => calls.map((call) => answer(holder, call, step)),
    record(event) {
      const epoch = epochOf(event.holder);
      epoch.recorded.add(event.n);
      if (!events.has(event.id)) {
        events.set(event.id, event);
        for (const of of event.counters) {
          add(of.key, event.cost);
          // Rule 13: events of an earlier counter count in the newest as well.
          const newest = newestIn.get(`${of.policy}|${of.window}`) ?? of.key;
          if (newest !== of.key) add(newest, event.cost);
        }
        for (const of of event.counters) {
          const lease = leases.get(leaseId(event.holder, of));
          if (lease) settle(lease, event);
        }
      }
      closeIfComplete(epoch);
    },
    declareLast(holder, lastN) {
      const epoch = epochOf(holder);
      epoch.lastN = lastN;
      closeIfComplete(epoch);
    },
    setLimit: (policy, limit) => {
      limits[policy] = limit;
    },
    startCounter(next) {
      versions[next.policy] = next.version;
      newestIn.set(`${next.policy}|${next.window}`, next.key);
      spent.set(next.key, 0);
      const isOfWindow = (of: Counter) => of.policy === next.policy && of.window === next.window;
      for (const event of events.values()) if (event.counters.some(isOfWindow)) add(next.key, event.cost);
      if (fault === 'counter-not-carried') return;
      for (const lease of leases.values()) {
        if (!isOfWindow(lease.counter)) continue;
        // It holds in the newest counter, and no longer in an earlier replacement.
        if (lease.also) {
          const between = leasesByCounter.get(lease.also.key) ?? [];
          between.splice(between.indexOf(lease), 1);
        }
        lease.also = next;
        holdIn(next, lease);
      }
    },
    expire(which) {
      if (!fault?.startsWith('expiry-')) return;
      const held = [...leases]
        .filter(([, lease]) => hold(lease) > 0)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([, lease]) => lease);
      const lease = held[Math.floor(which * held.length)];
      if (!lease) return;
      if (fault !== 'expiry-refunds')
        lease.forfeited += Math.max(0, lease.granted - lease.returned - lease.settled);
      refund(lease);
    },
    exposure: (of) => exposure(of.key),
    atRest(): AtRest {
      return {
        buckets: [...spent].map(([key, sum]) => ({ key, spent: sum, leased: leased(key) })),
        held: [...leases.values()]
          .filter((lease) => hold(lease) > 0)
          .map((lease) => ({ holder: lease.holder, key: lease.counter.key, hold: hold(lease) })),
      };
    },
  };
}

function leaseId(holder: Holder, of: Counter): string {
  return `${of.key}/${holder.proxy}/${holder.epoch}`;
}

function holderId(holder: Holder): string {
  return `${holder.proxy}/${holder.epoch}`;
}

function sameHolder(a: Holder, b: Holder): boolean {
  return a.proxy === b.proxy && a.epoch === b.epoch;
}
