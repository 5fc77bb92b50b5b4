import type { Database } from '@weighbridge/database';
import type { Ack } from '../events/usage.ts';

/** An ack for each shard of some of a producer's epochs; none for epochs that the ledger doesn't know. */
export async function readAcks(db: Database, producerId: string, epochs: readonly string[]): Promise<Ack[]> {
  if (epochs.length === 0) return [];
  const rows = await db
    .selectFrom('producer_shards')
    .select(['producer_id', 'epoch', 'shard', 'recorded_n'])
    .where('producer_id', '=', producerId)
    .where('epoch', 'in', epochs)
    .orderBy('epoch')
    .orderBy('shard')
    .execute();
  return rows.map((row) => ({
    producerId: row.producer_id,
    epoch: row.epoch,
    shard: row.shard,
    n: row.recorded_n,
  }));
}
