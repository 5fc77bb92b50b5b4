import { type BucketRef, bucketKey, countersOf } from '@weighbridge/budget';
import type { Database, Tx } from '@weighbridge/database';
import { addToBuckets } from '../buckets/addToBuckets.ts';
import { deferThresholds } from '../budgets/dueThresholds.ts';
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
import { appendSpend, takeSharedApart } from './appendSpend.ts';
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
  options: RecordOptions = {},
): Promise<RecordResult> {
  const count = usage.events.length + usage.refused.length;
  if (count > MAX_EVENTS_PER_TRANSACTION) {
    throw new Error(`recordUsage takes at most ${MAX_EVENTS_PER_TRANSACTION} events, not ${count}`);
  }
  return await db.transaction().execute((tx) => recordInTransaction(tx, usage, now, options));
}

export interface RecordOptions {
  /** False: the caller can't announce thresholds, and leaves them to metering's maintenance. */
  readonly announces?: boolean;
  readonly lastStep?: LastStep | undefined;
  /** What is spent of counters that all events of a policy share is appended. The caller sees to it that `mergeSpend` runs. */
  readonly appends?: boolean;
  /** As for `insertEvents`. */
  readonly isReleased?: boolean;
}

/**
 * As `recordUsage`, within a transaction. Every writer of the ledger takes its locks in this order.
 */
export async function recordInTransaction(
  tx: Tx,
  usage: UsageToRecord,
  now: Date,
  { announces = true, appends = false, isReleased = false, lastStep }: RecordOptions = {},
): Promise<RecordResult> {
  // 0. First: it keeps new counters from being started until the commit.
  const { events, isReplaced } = await withCounters(tx, inOrderOfIds(usage.events));
  // 1. Insert the events. One that is already there was counted before.
  const added = await insertEvents(tx, events, { isReleased });
  // 2. Count only the new events, so that a repeated message changes nothing. The sums by hour belong to this shard alone. Values of
  // callers that are new on a key's day lock that day.
  await addToSums(tx, added);
  // 3. Quarantine the refused events. They count as received, so that their numbers don't hold up later ones.
  await quarantineRefused(tx, usage.refused, now);
  // 4. All shards may have events of a shared bucket: append what they spent, which waits for no one.
  const { own, shared } = appends ? takeSharedApart(added, isReplaced) : { own: added, shared: [] };
  await appendSpend(tx, shared);
  // 5. From here to the commit, other writers of the other buckets wait.
  await addToBuckets(tx, own);
  // 6. Settle the leases that the events were admitted on.
  await settleLeases(tx, own);
  const thresholds = announces ? await recordThresholds(tx, namesOf(own), now) : [];
  if (!announces) await deferThresholds(tx, namesOf(own));
  // 7. Late: two shards of one spool may wait for each other here.
  const received = await recordReceived(tx, usage.received);
  // 8. Last: it may lock rows that every writer updates.
  await lastStep?.(tx, added, now);
  return { newEvents: added.length, thresholds, ...received };
}

function namesOf(events: readonly CountedEvent[]): string[] {
  const names = new Set<string>();
  for (const { counters } of events) for (const key of counters.keys()) names.add(key);
  return [...names];
}

/** The events with all their buckets: those that they were admitted on, and those of newer counters. */
async function withCounters(
  tx: Tx,
  events: readonly LedgerEvent[],
): Promise<{ readonly events: CountedEvent[]; isReplaced(bucket: BucketRef): boolean }> {
  if (events.length === 0) return { events: [], isReplaced: () => false };
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
  const counted = events.map((event) => {
    const { row, buckets, workloadType, counts } = event;
    const followed = newer.of.get(event);
    if (followed) {
      const counters = countersNamed([...buckets, ...followed], row.principal_id);
      return { row, buckets, workloadType, counts, counters };
    }
    let payer = ofPayer.get(buckets);
    if (payer?.principalId !== row.principal_id) {
      payer = { principalId: row.principal_id, counters: countersNamed(buckets, row.principal_id) };
      ofPayer.set(buckets, payer);
    }
    return { row, buckets, workloadType, counts, counters: payer.counters };
  });
  return { events: counted, isReplaced: newer.isReplaced };
}

function inOrderOfIds(events: readonly LedgerEvent[]): LedgerEvent[] {
  const once = new Map(events.map((event) => [event.row.event_id, event]));
  return [...once.values()].sort((a, b) => (a.row.event_id < b.row.event_id ? -1 : 1));
}
