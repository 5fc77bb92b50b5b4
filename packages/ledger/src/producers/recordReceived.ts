import { arrayLiteral, BIGINT, binaryArray, SMALLINT, type Tx, UUID } from '@weighbridge/database';
import { sql } from 'kysely';
import { limitedPause } from '../buckets/limitPause.ts';
import type { Ack, ReceivedRange } from '../events/usage.ts';
import { closeIfComplete, insertProducers } from './producers.ts';

interface ShardRow {
  readonly producer_id: string;
  readonly epoch: string;
  readonly shard: number;
  readonly recorded_n: bigint;
  readonly last_n: bigint | null;
}

/**
 * Marks event numbers as received, in any order and any number of times, and closes the epochs that this completes. Returns
 * an ack for each shard, up to its first missing number, and how many epochs were closed.
 */
export async function recordReceived(
  tx: Tx,
  received: readonly ReceivedRange[],
): Promise<{ readonly acks: readonly Ack[]; readonly closedEpochs: number }> {
  const shards = byShard(received);
  if (shards.length === 0) return { acks: [], closedEpochs: 0 };
  // Workers of a shard take turns until the commit, so the order in which they lock its rows doesn't matter.
  const numbers = new Set(shards.map(({ shard }) => shard));
  for (const shard of [...numbers].sort((a, b) => a - b)) await lockShard(tx, shard);
  // Usually the numbers are the next ones, of epochs that continue.
  if ((await append(tx, shards)) === shards.length) {
    return { acks: shards.map((shard) => ({ ...shardOf(shard), n: shard.lastN })), closedEpochs: 0 };
  }
  await insertProducers(tx, shards);
  // Shards that already have all of the message, of an epoch that continues, are neither written nor returned.
  const { rows } = await sql<ShardRow>`
    WITH message AS MATERIALIZED (
      SELECT * FROM unnest(
        ${arrayLiteral(shards.map(({ producerId }) => producerId))}::uuid[],
        ${arrayLiteral(shards.map(({ epoch }) => epoch))}::uuid[],
        ${arrayLiteral(shards.map(({ shard }) => shard))}::smallint[],
        ${arrayLiteral(shards.map(({ ranges }) => `{${ranges.map(rangeText).join(',')}}`))}::int8multirange[],
        ${arrayLiteral(shards.map(({ lastN }) => lastN))}::bigint[]
      ) AS message (producer_id, epoch, shard, received, upto_n)
    ), held AS (
      INSERT INTO producer_shards AS shard (producer_id, epoch, shard, received, gap_since)
      SELECT producer_id, epoch, shard, received,
             CASE WHEN received <> int8multirange(int8range(1, upper(received))) THEN statement_timestamp() END
      FROM message
      WHERE NOT EXISTS (
        SELECT FROM producer_shards AS known
        WHERE known.producer_id = message.producer_id AND known.epoch = message.epoch
          AND known.shard = message.shard AND known.recorded_n = message.upto_n
          AND known.gap_since IS NULL AND known.last_n IS NULL
      )
      ON CONFLICT (producer_id, epoch, shard) DO UPDATE SET
        received = shard.received + excluded.received,
        gap_since = CASE
          WHEN shard.received + excluded.received
            <> int8multirange(int8range(1, upper(shard.received + excluded.received)))
          THEN coalesce(shard.gap_since, statement_timestamp())
        END
      RETURNING producer_id, epoch, shard, recorded_n, last_n
    )
    SELECT producer_id, epoch, shard, recorded_n, last_n
    FROM held JOIN message USING (producer_id, epoch, shard)
    WHERE recorded_n <> upto_n OR last_n IS NOT NULL`.execute(tx);
  const reached = new Map(
    rows
      .filter(({ recorded_n, last_n }) => last_n !== null && recorded_n >= last_n)
      .map(({ producer_id, epoch }) => [`${producer_id}/${epoch}`, { producerId: producer_id, epoch }]),
  );
  let closedEpochs = 0;
  for (const epoch of reached.values()) if (await closeIfComplete(tx, epoch)) closedEpochs++;
  const recorded = new Map(
    rows.map((row) => [shardKey(row.producer_id, row.epoch, row.shard), row.recorded_n]),
  );
  const acks = shards.map((shard) => ({ ...shardOf(shard), n: recorded.get(shard.key) ?? shard.lastN }));
  return { acks, closedEpochs };
}

/** Any number such that it, plus a shard, is no other advisory lock's. */
const SHARD_LOCK = 5_518_240_963;

async function lockShard(tx: Tx, shard: number): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${SHARD_LOCK + shard}), ${limitedPause()}`.execute(tx);
}

/**
 * Adds numbers to shards that have all earlier numbers and no later ones, of epochs that haven't declared their last number.
 * Returns how many shards it added to.
 */
async function append(tx: Tx, shards: readonly ReceivedShard[]): Promise<number> {
  const contiguous = shards.filter(isContiguous);
  if (contiguous.length === 0) return 0;
  const { numAffectedRows = 0n } = await sql`
    UPDATE producer_shards AS shard
    SET received = shard.received + int8multirange(int8range(before_n + 1, upto_n + 1))
    FROM unnest(
      ${binaryArray(UUID, contiguous, ({ producerId }) => producerId)}::uuid[],
      ${binaryArray(UUID, contiguous, ({ epoch }) => epoch)}::uuid[],
      ${binaryArray(SMALLINT, contiguous, ({ shard }) => shard)}::smallint[],
      ${binaryArray(BIGINT, contiguous, ({ ranges }) => (ranges[0]?.from ?? 0n) - 1n)}::bigint[],
      ${binaryArray(BIGINT, contiguous, ({ lastN }) => lastN)}::bigint[]
    ) AS message (producer_id, epoch, shard, before_n, upto_n)
    WHERE shard.producer_id = message.producer_id AND shard.epoch = message.epoch AND shard.shard = message.shard
      AND shard.recorded_n = before_n AND shard.gap_since IS NULL AND shard.last_n IS NULL`.execute(tx);
  return Number(numAffectedRows);
}

/** Whether the numbers follow each other without a gap, in the order of their arrival. */
function isContiguous({ ranges }: ReceivedShard): boolean {
  return ranges.every(({ from }, at) => at === 0 || from === ranges[at - 1]?.end);
}

function shardOf({ producerId, epoch, shard }: ReceivedShard): Omit<Ack, 'n'> {
  return { producerId, epoch, shard };
}

function rangeText({ from, end }: NumberRange): string {
  return `[${from},${end})`;
}

interface NumberRange {
  readonly from: bigint;
  readonly end: bigint;
}

interface ReceivedShard extends Pick<ReceivedRange, 'producerId' | 'epoch' | 'shard'> {
  readonly key: string;
  readonly ranges: NumberRange[];
  /** The highest number received. */
  lastN: bigint;
}

/** One entry for each shard, in the order in which they are locked. */
function byShard(received: readonly ReceivedRange[]): ReceivedShard[] {
  const shards = new Map<string, ReceivedShard>();
  for (const { producerId, epoch, shard, firstN, count } of received) {
    if (count === 0) continue;
    const key = shardKey(producerId, epoch, shard);
    const end = firstN + BigInt(count);
    const range = { from: firstN, end };
    const entry = shards.get(key);
    if (!entry) shards.set(key, { key, producerId, epoch, shard, ranges: [range], lastN: end - 1n });
    else {
      entry.ranges.push(range);
      if (end > entry.lastN) entry.lastN = end - 1n;
    }
  }
  return [...shards.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

function shardKey(producerId: string, epoch: string, shard: number): string {
  return `${producerId}/${epoch}/${shard}`;
}
