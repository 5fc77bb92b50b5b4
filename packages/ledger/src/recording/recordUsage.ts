import type { Database, Tx } from '@weighbridge/database';
import { addToBuckets } from '../buckets/addToBuckets.ts';
import { type BucketRef, bucketKey, countersOf } from '../buckets/bucketRef.ts';
import { findSuccessors } from '../buckets/successors.ts';
import { recordThresholds, type ThresholdReached } from '../budgets/thresholds.ts';
import {
  type Ack,
  type LedgerEvent,
  MAX_EVENTS_PER_TRANSACTION,
  type UsageToRecord,
} from '../events/usage.ts';
import { closeLeases } from '../leases/closeLeases.ts';
import { settleLeases } from '../leases/settleLeases.ts';
import { recordReceived } from '../producers/recordReceived.ts';
import { addToHours } from '../spend/usageByHour.ts';
import { type CountedEvent, insertEvents } from './insertEvents.ts';
import { quarantineRefused } from './quarantineRefused.ts';

export interface RecordResult {
  /** How many events were new. */
  readonly newEvents: number;
  /** How far each shard that something was received of is held without a gap. */
  readonly confirms: readonly Ack[];
  /** How many epochs this has closed. */
  readonly closedEpochs: number;
  /** What counters reached by this. */
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
  const recorded = await db.transaction().execute((tx) => recordInTransaction(tx, usage, now, { lastStep }));
  if (recorded.closedEpochs > 0) await closeLeases(db);
  return recorded;
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
  // 0. First, since it keeps counters from being started until this is written.
  const events = await withCounters(tx, inOrderOfIds(usage.events));
  // 1. Insert. What is there already was counted when it came first.
  const added = await insertEvents(tx, events);
  // 2. Count only what was new: a message that is delivered again changes nothing. The sums by hour are this shard's own …
  await addToHours(tx, added);
  // 3. What was refused is kept, and counts as received: its number must not hold up those behind it.
  await quarantineRefused(tx, usage.refused);
  // 4. … and counters may be everybody's: whoever adds to one keeps the others waiting from here to the commit.
  await addToBuckets(tx, added);
  // 5. What leases held for it.
  await settleLeases(tx, added);
  const thresholds = announces ? await recordThresholds(tx, namesOf(added), now) : [];
  // 6. Late, since two shards of one spool may wait for each other here.
  const received = await recordReceived(tx, usage.received);
  // 7. Last, since it may lock rows that every writer updates.
  await lastStep?.(tx, added, now);
  return { newEvents: added.length, thresholds, ...received };
}

function namesOf(events: readonly CountedEvent[]): string[] {
  const names = new Set<string>();
  for (const { counters } of events) for (const key of counters.keys()) names.add(key);
  return [...names];
}

/** Every counter of each event: those that it was admitted on, and those that followed them. */
async function withCounters(tx: Tx, events: readonly LedgerEvent[]): Promise<CountedEvent[]> {
  if (events.length === 0) return [];
  const successors = await findSuccessors(tx, events);
  // Few differ: what is made of them is made once. No text of the ledger holds a NUL.
  const known = new Map<string, ReadonlyMap<string, BucketRef>>();
  const countersNamed = (all: readonly BucketRef[], principalId: string) => {
    const names = `${all.map(bucketKey).join('\0')}\0${principalId}`;
    const counters = known.get(names) ?? countersOf(all, principalId);
    known.set(names, counters);
    return counters;
  };
  // Events of one payer mostly share their buckets.
  const ofPayer = new Map<
    LedgerEvent['buckets'],
    { principalId: string; counters: CountedEvent['counters'] }
  >();
  return events.map((event) => {
    const { row, buckets, workloadType } = event;
    const followed = successors.get(event);
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
