import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { Ack } from '../events/usage.ts';

/**
 * An ack for each shard of some of a producer's epochs; none for epochs that the ledger doesn't know. `acked` is what earlier
 * acks said: a ledger that was restored to an earlier state lacks some of that for good, and the ack is then for what follows it.
 */
export async function readAcks(
  db: Database,
  producerId: string,
  epochs: readonly string[],
  acked: readonly Pick<Ack, 'epoch' | 'shard' | 'n'>[] = [],
): Promise<Ack[]> {
  if (epochs.length === 0) return [];
  const { rows } = await sql<{ epoch: string; shard: number; n: bigint }>`
    SELECT epoch, shard, greatest(recorded_n, (
             SELECT max(upper(part)) - 1
             FROM unnest(${arrayLiteral(acked.map(({ epoch }) => epoch))}::uuid[],
                         ${arrayLiteral(acked.map(({ shard }) => shard))}::smallint[],
                         ${arrayLiteral(acked.map(({ n }) => n))}::bigint[]) AS acked (epoch, shard, n),
                  unnest(held.received) AS part
             WHERE acked.epoch = held.epoch AND acked.shard = held.shard AND part @> acked.n + 1
           )) AS n
    FROM producer_shards AS held
    WHERE producer_id = ${producerId} AND epoch = ANY (${arrayLiteral(epochs)}::uuid[])
    ORDER BY epoch, shard`.execute(db);
  return rows.map((row) => ({ producerId, ...row }));
}
