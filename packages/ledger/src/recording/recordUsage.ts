import { type BucketRef, bucketKey, countersOf } from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import { addToBuckets } from '../buckets/addToBuckets.ts';
import { recordThresholds, type ThresholdReached } from '../budgets/thresholds.ts';
import { findNewerCounters } from '../counters/newerCounters.ts';
import {
  type Ack,
  type LedgerEvent,
  MAX_EVENTS_PER_TRANSACTION,
  type UsageToRecord,
} from '../events/usage.ts';
import { settleLeases } from '../leases/settleLeases.ts';
import { recordReceived } from '../producers/recordReceived.ts';
import { addToSums } from '../spend/addToSums.ts';
import { type CountedEvent, insertEvents } from './insertEvents.ts';
import { quarantineRefused } from './quarantineRefused.ts';

export interface RecordResult {
  /** How many events were new. */
  readonly newEvents: number;
  /** For each shard with events received: how far the ledger has it without a gap. */
  readonly acks: readonly Ack[];
  /** How many epochs it closed. `closeLeases` closes their leases. */
  readonly closedEpochs: number;
  /** The thresholds that counters reached. */
  readonly thresholds: readonly ThresholdReached[];
}

/**
 * The caller's own last step in the transaction that inserts events; it gets those that were new. Keep it short: other
 * writers wait for the rows that it locks.
 */
export type LastStep = (tx: Tx, newEvents: readonly LedgerEvent[], now: Date) => Promise<void>;

/**
 * Records messages of the usage stream in one transaction, each event once however often it is delivered. The acks hold only
 * after it resolves. If it rejects, all of it may be retried, even if the outcome of the commit is unknown.
 */
export async function recordUsage(
  db: Database,
  usage: UsageToRecord,
  now: Date = new Date(),
  lastStep?: LastStep,
): Promise<RecordResult> {
  const count = usage.events.length + usage.refused.length;
  if (count > MAX_EVENTS_PER_TRANSACTION) {
    throw new Error(`recordUsage takes at most ${MAX_EVENTS_PER_TRANSACTION} events, not ${count}`);
  }
  return await db.transaction().execute((tx) => recordInTransaction(tx, usage, now, { lastStep }));
}

export interface RecordOptions {
  /** False: the caller can't announce thresholds, and leaves them to metering's maintenance. */
  readonly announces?: boolean;
  readonly lastStep?: LastStep | undefined;
}

/**
 * As `recordUsage`, within a transaction. Every writer of the ledger takes its locks in this order.
 */
export async function recordInTransaction(
  tx: Tx,
  usage: UsageToRecord,
  now: Date,
  { announces = true, lastStep }: RecordOptions = {},
): Promise<RecordResult> {
  // 0. First: it keeps new counters from being started until the commit.
  const events = await withCounters(tx, inOrderOfIds(usage.events));
  // 1. Insert the events. One that is already there was counted before.
  const added = await insertEvents(tx, events);
  // 2. Count only the new events, so that a repeated message changes nothing. The sums by hour belong to this shard alone. Values of
  // callers that are new on a key's day lock that day.
  await addToSums(tx, added);
  // 3. Quarantine the refused events. They count as received, so that their numbers don't hold up later ones.
  await quarantineRefused(tx, usage.refused, now);
  // 4. Buckets may be shared by all shards: from here to the commit, other writers of them wait.
  await addToBuckets(tx, added);
  // 5. Settle the leases that the events were admitted on.
  await settleLeases(tx, added);
  const thresholds = announces ? await recordThresholds(tx, namesOf(added), now) : [];
  // 6. Late: two shards of one spool may wait for each other here.
  const received = await recordReceived(tx, usage.received);
  // 7. Last: it may lock rows that every writer updates.
  await lastStep?.(tx, added, now);
  return { newEvents: added.length, thresholds, ...received };
}

function namesOf(events: readonly CountedEvent[]): string[] {
  const names = new Set<string>();
  for (const { counters } of events) for (const key of counters.keys()) names.add(key);
  return [...names];
}

/** The events with all their buckets: those that they were admitted on, and those of newer counters. */
async function withCounters(tx: Tx, events: readonly LedgerEvent[]): Promise<CountedEvent[]> {
  if (events.length === 0) return [];
  const newer = await findNewerCounters(tx, events);
  // Most events share their counters, which are computed once. No text of the ledger contains a NUL.
  const known = new Map<string, ReadonlyMap<string, BucketRef>>();
  const countersNamed = (all: readonly BucketRef[], principalId: string) => {
    const names = `${all.map(bucketKey).join('\0')}\0${principalId}`;
    const counters = known.get(names) ?? countersOf(all, principalId);
    known.set(names, counters);
    return counters;
  };
  // Most events of one payer share their buckets.
  const ofPayer = new Map<
    LedgerEvent['buckets'],
    { principalId: string; counters: CountedEvent['counters'] }
  >();
  return events.map((event) => {
    const { row, buckets, workloadType } = event;
    const followed = newer.get(event);
    if (followed) {
      const counters = countersNamed([...buckets, ...followed], row.principal_id);
      return { row, buckets, workloadType, counters };
    }
    let payer = ofPayer.get(buckets);
    if (payer?.principalId !== row.principal_id) {
      payer = { principalId: row.principal_id, counters: countersNamed(buckets, row.principal_id) };
      ofPayer.set(buckets, payer);
    }
    return { row, buckets, workloadType, counters: payer.counters };
  });
}

function inOrderOfIds(events: readonly LedgerEvent[]): LedgerEvent[] {
  const once = new Map(events.map((event) => [event.row.event_id, event]));
  return [...once.values()].sort((a, b) => (a.row.event_id < b.row.event_id ? -1 : 1));
}
