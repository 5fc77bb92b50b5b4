import { amountIn, type Decision, type SimulatedEvent } from './leaseLedger.ts';
import { leaseKey } from './vendorBill.ts';

interface Entry {
  readonly event: SimulatedEvent;
  /** The first one. */
  decision?: Decision;
}

/** The events that reached the quarantine, and what an operator decided on each. */
export class SimulatedQuarantine {
  readonly #entries = new Map<number, Entry>();

  add(event: SimulatedEvent): void {
    if (!this.#entries.has(event.id)) this.#entries.set(event.id, { event });
  }

  get all(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  get undecided(): readonly Entry[] {
    return this.all.filter(({ decision }) => !decision);
  }

  /** By lease: what was reserved for usage that waits. */
  reserved(): ReadonlyMap<string, number> {
    const reserved = new Map<string, number>();
    for (const { event } of this.undecided) {
      for (const of of event.admittedOn) {
        const lease = leaseKey(of, event.holder);
        reserved.set(lease, (reserved.get(lease) ?? 0) + amountIn(of, event.reserve));
      }
    }
    return reserved;
  }

  /** What a lease still holds of decided usage: its process charged the reservation, and knows of no decision. */
  leftOfDecided(lease: string): number {
    let left = 0;
    for (const { event, decision } of this.all) {
      const of = event.admittedOn.find((one) => leaseKey(one, event.holder) === lease);
      if (!of) continue;
      left += amountIn(of, event.reserve) - (decision === 'released' ? amountIn(of, event.cost) : 0);
    }
    return left;
  }
}
