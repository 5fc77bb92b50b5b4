import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { arrayLiteral } from './arrayLiteral.ts';
import { closeIfComplete, insertProducers } from './producers.ts';
import type { Confirm, ReceivedRange } from './usage.ts';

interface ShardRow {
  readonly producer_id: string;
  readonly epoch: string;
  readonly shard: number;
  readonly recorded_n: bigint;
  readonly last_n: bigint | null;
}

/**
 * Marks numbers as received, in any order and as often as they come, and closes the epochs that are complete by that.
 * Returns how far each of the shards is held without a gap, and how many epochs were closed.
 */
export async function recordReceived(
  tx: Tx,
  received: readonly ReceivedRange[],
): Promise<{ readonly confirms: readonly Confirm[]; readonly closedEpochs: number }> {
  const shards = byShard(received);
  if (shards.length === 0) return { confirms: [], closedEpochs: 0 };
  await insertProducers(tx, shards);
  // Almost all are held as far as the message goes, of an epoch that goes on: those need not be told, nor read here.
  const { rows } = await sql<ShardRow>`
    WITH message AS MATERIALIZED (
      SELECT * FROM unnest(
        ${arrayLiteral(shards.map(({ producerId }) => producerId))}::uuid[],
        ${arrayLiteral(shards.map(({ epoch }) => epoch))}::uuid[],
        ${arrayLiteral(shards.map(({ shard }) => shard))}::smallint[],
        ${arrayLiteral(shards.map(({ ranges }) => `{${ranges.join(',')}}`))}::int8multirange[],
        ${arrayLiteral(shards.map(({ lastN }) => lastN))}::bigint[]
      ) AS message (producer_id, epoch, shard, received, upto_n)
    ), held AS (
      INSERT INTO producer_shards AS shard (producer_id, epoch, shard, received, gap_since)
      SELECT producer_id, epoch, shard, received,
             CASE WHEN received <> int8multirange(int8range(1, upper(received))) THEN statement_timestamp() END
      FROM message
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
      .map(({ producer_id, epoch }) => [epoch, { producerId: producer_id, epoch }]),
  );
  let closedEpochs = 0;
  for (const epoch of reached.values()) if (await closeIfComplete(tx, epoch)) closedEpochs++;
  const told = new Map(rows.map((row) => [shardKey(row.producer_id, row.epoch, row.shard), row.recorded_n]));
  const confirms = shards.map(({ key, producerId, epoch, shard, lastN }) => ({
    producerId,
    epoch,
    shard,
    n: told.get(key) ?? lastN,
  }));
  return { confirms, closedEpochs };
}

/** What is held of some epochs of a producer; nothing for those that the ledger has not heard of. */
export async function readConfirms(
  db: Database,
  producerId: string,
  epochs: readonly string[],
): Promise<Confirm[]> {
  if (epochs.length === 0) return [];
  const rows = await db
    .selectFrom('producer_shards')
    .select(['producer_id', 'epoch', 'shard', 'recorded_n', 'last_n'])
    .where('producer_id', '=', producerId)
    .where('epoch', 'in', epochs)
    .orderBy('epoch')
    .orderBy('shard')
    .execute();
  return rows.map(confirmOf);
}

function confirmOf(row: ShardRow): Confirm {
  return { producerId: row.producer_id, epoch: row.epoch, shard: row.shard, n: row.recorded_n };
}

interface ReceivedShard extends Pick<ReceivedRange, 'producerId' | 'epoch' | 'shard'> {
  readonly key: string;
  readonly ranges: string[];
  /** The highest number that came. */
  lastN: bigint;
}

/** One entry for each shard, in the order in which they are locked. */
function byShard(received: readonly ReceivedRange[]): ReceivedShard[] {
  const shards = new Map<string, ReceivedShard>();
  for (const { producerId, epoch, shard, firstN, count } of received) {
    if (count === 0) continue;
    const key = shardKey(producerId, epoch, shard);
    const end = firstN + BigInt(count);
    const range = `[${firstN},${end})`;
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
