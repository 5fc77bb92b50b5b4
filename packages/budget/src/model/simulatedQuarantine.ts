import type { Decision, SimulatedEvent } from './leaseLedger.ts';
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
        reserved.set(lease, (reserved.get(lease) ?? 0) + event.reserve);
      }
    }
    return reserved;
  }

  /** What a lease still holds of decided usage: its process charged the reservation, and knows of no decision. */
  leftOfDecided(lease: string): number {
    const ofLease = this.all.filter(({ event }) =>
      event.admittedOn.some((of) => leaseKey(of, event.holder) === lease),
    );
    return ofLease.reduce(
      (left, { event, decision }) => left + event.reserve - (decision === 'released' ? event.cost : 0),
      0,
    );
  }
}
