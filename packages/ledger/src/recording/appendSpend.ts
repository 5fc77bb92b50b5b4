import {
  type BucketRef,
  bucketKey,
  OTHERS_SUBJECT,
  POLICY_SUBJECT,
  UNKNOWN_SUBJECT,
} from '@weighbridge/budget';
import { arrayLiteral, BIGINT, binaryArray, type Tx, UUID } from '@weighbridge/database';
import { sql } from 'kysely';
import { amountIn } from '../buckets/amountIn.ts';
import type { CountedEvent } from './insertEvents.ts';

/** New events, by how their buckets learn of them. */
export interface SharedApart {
  /** What counts in this transaction: each event with its other buckets. */
  readonly own: readonly CountedEvent[];
  /** What is appended, and merged later. */
  readonly shared: readonly SharedSpend[];
}

interface SharedSpend {
  readonly key: string;
  readonly producerId: string;
  readonly epoch: string;
  nanoUsd: bigint;
  settledFrom: Date;
}

/** Takes shared buckets out of events, and adds up what the events spent of them. */
export function takeSharedApart(
  events: readonly CountedEvent[],
  isReplaced: (bucket: BucketRef) => boolean,
): SharedApart {
  const ways = new Map<CountedEvent['counters'], Map<CountedEvent['buckets'], Way>>();
  const shared = new Map<string, SharedSpend>();
  const own = events.map((event) => {
    const { producer_id: producerId, epoch } = event.row;
    if (!producerId || !epoch) return event;
    const ofCounters = ways.get(event.counters) ?? new Map<CountedEvent['buckets'], Way>();
    ways.set(event.counters, ofCounters);
    const way = ofCounters.get(event.buckets) ?? wayOf(event, isReplaced);
    ofCounters.set(event.buckets, way);
    if (way.shared.size === 0) return event;
    for (const [key, bucket] of way.shared)
      add(shared, { key, producerId, epoch }, amountIn(bucket, event), event.row.settled_at);
    return { ...event, buckets: way.buckets, counters: way.counters };
  });
  return { own, shared: [...shared.values()] };
}

/** Most events of one payer share it. */
interface Way {
  readonly shared: ReadonlyMap<string, BucketRef>;
  readonly buckets: readonly BucketRef[];
  readonly counters: CountedEvent['counters'];
}

/** Of counters that events of many principals share, so of many shards. */
const SHARED_SUBJECTS: ReadonlySet<string> = new Set([POLICY_SUBJECT, UNKNOWN_SUBJECT, OTHERS_SUBJECT]);

function wayOf({ buckets, counters }: CountedEvent, isReplaced: (bucket: BucketRef) => boolean): Way {
  // What a replaced counter had appended is merged, and nothing is appended to it any more.
  const isAppended = (bucket: BucketRef) => SHARED_SUBJECTS.has(bucket.subject) && !isReplaced(bucket);
  const shared = new Map(buckets.filter(isAppended).map((bucket) => [bucketKey(bucket), bucket]));
  return {
    shared,
    buckets: buckets.filter((bucket) => !isAppended(bucket)),
    counters: new Map([...counters].filter(([key]) => !shared.has(key))),
  };
}

function add(
  sums: Map<string, SharedSpend>,
  { key, producerId, epoch }: Pick<SharedSpend, 'key' | 'producerId' | 'epoch'>,
  amount: bigint,
  settledAt: Date,
): void {
  const name = `${producerId}/${epoch}/${key}`;
  const sum = sums.get(name);
  if (!sum) {
    sums.set(name, { key, producerId, epoch, nanoUsd: amount, settledFrom: settledAt });
    return;
  }
  sum.nanoUsd += amount;
  if (settledAt < sum.settledFrom) sum.settledFrom = settledAt;
}

/** Appends what events spent of shared buckets, in their transaction. No two transactions wait for each other here. */
export async function appendSpend(tx: Tx, shared: readonly SharedSpend[]): Promise<void> {
  if (shared.length === 0) return;
  await sql`
    INSERT INTO appended_spend (bucket_key, producer_id, epoch, nano_usd, settled_from)
    SELECT * FROM unnest(
      ${arrayLiteral(shared.map(({ key }) => key))}::text[],
      ${binaryArray(UUID, shared, ({ producerId }) => producerId)}::uuid[],
      ${binaryArray(UUID, shared, ({ epoch }) => epoch)}::uuid[],
      ${binaryArray(BIGINT, shared, ({ nanoUsd }) => nanoUsd)}::bigint[],
      ${arrayLiteral(shared.map(({ settledFrom }) => settledFrom))}::timestamptz[])`.execute(tx);
}
