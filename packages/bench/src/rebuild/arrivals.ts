import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '@weighbridge/database';
import { addEvidence } from '@weighbridge/evidence';
import { decodeBatch, readIdRange, recordUsage } from '@weighbridge/ledger';
import { addSpent } from '../shared/checkLedger.ts';
import { generateBatches, generateEvents } from '../shared/generateUsage.ts';

const TICK_MS = 50;
/** Per transaction of the ledger. */
const MAX_EVENTS = 1_000;

export interface Arrivals {
  /** Events per second that were reached. */
  readonly rate: number;
  readonly events: number;
  /** Nano-USD that they add to each bucket. */
  readonly spent: ReadonlyMap<string, bigint>;
  /** The slowest transaction, in milliseconds. */
  readonly slowestMs: number;
}

/** Records `rate` new events per second, as metering does, until `stop`, which resolves when all are recorded. */
export function startArrivals(db: Database, rate: number): { stop(): Promise<Arrivals> } {
  const stopping = new AbortController();
  const running = arrive(db, rate, stopping.signal);
  // `stop` returns this promise, and so reports its rejection.
  running.catch(() => {});
  return {
    stop() {
      stopping.abort();
      return running;
    },
  };
}

async function arrive(db: Database, rate: number, signal: AbortSignal): Promise<Arrivals> {
  const ids = await readIdRange(db);
  const now = new Date();
  const start = performance.now();
  const spent = new Map<string, bigint>();
  let recorded = 0;
  let slowestMs = 0;
  while (!signal.aborted) {
    const due = Math.floor(((performance.now() - start) / 1_000) * rate) - recorded;
    const events = generateEvents(Math.min(due, MAX_EVENTS), now, recorded);
    const began = performance.now();
    await Promise.all(
      generateBatches(events, { producers: 1, eventsPerBatch: MAX_EVENTS }).map((batch) =>
        recordUsage(db, decodeBatch(batch.payload, ids), new Date(), { lastStep: addEvidence }),
      ),
    );
    slowestMs = Math.max(slowestMs, performance.now() - began);
    addSpent(spent, events);
    recorded += events.length;
    if (due <= MAX_EVENTS) await sleep(TICK_MS, undefined, { signal }).catch(() => {});
  }
  const rateReached = recorded / ((performance.now() - start) / 1_000);
  return { rate: rateReached, events: recorded, spent, slowestMs };
}
