import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { ProducerRow } from './producers.ts';

/** How far one shard of an epoch has arrived. */
export interface ProducerShard {
  readonly shard: number;
  /** All up to this one have. */
  readonly recordedN: bigint;
  /** The last one that there is; null until its spool says so. */
  readonly lastN: bigint | null;
  /** Numbers that are known to be missing, as ranges with an open end (`{[3,5),[9,10)}`), at most 500 characters of them. */
  readonly missing: string;
  readonly gapSince: Date | null;
}

export interface ListedProducer extends ProducerRow {
  /** Those of which something has arrived or was declared, by number. */
  readonly shards: readonly ProducerShard[];
}

export interface ProducerPage {
  /** The epoch that the page before ended with. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** All states where none is named. */
  readonly states?: readonly string[] | undefined;
}

/** Epochs of spools, the youngest first. */
export async function listProducers(
  db: Database,
  { after, limit, states }: ProducerPage,
): Promise<ListedProducer[]> {
  let page = db.selectFrom('producers').selectAll().orderBy('epoch', 'desc').limit(limit);
  if (after !== undefined) page = page.where('epoch', '<', after);
  if (states) page = page.where('state', 'in', states);
  const producers = await page.execute();
  if (producers.length === 0) return [];
  const shards = await db
    .selectFrom('producer_shards')
    .select([
      'epoch',
      'shard',
      'recorded_n as recordedN',
      'last_n as lastN',
      'gap_since as gapSince',
      sql<string>`left((int8multirange(int8range(1, greatest(upper(received), last_n + 1))) - received)::text, 500)`.as(
        'missing',
      ),
    ])
    .where(
      'epoch',
      'in',
      producers.map(({ epoch }) => epoch),
    )
    .orderBy('epoch')
    .orderBy('shard')
    .execute();
  return producers.map((producer) => ({
    ...producer,
    shards: shards.filter(({ epoch }) => epoch === producer.epoch).map(({ epoch: _, ...shard }) => shard),
  }));
}
