import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { ProducerRow } from './producers.ts';

/** How much of one shard of an epoch the ledger has. */
export interface ProducerShard {
  readonly shard: number;
  /** The ledger has every number up to and including this one. */
  readonly recordedN: bigint;
  /** The number of the last event; null until the spool declares it. */
  readonly lastN: bigint | null;
  /** The missing numbers, as a Postgres multirange (`{[3,5),[9,10)}`), cut at 500 characters. */
  readonly missing: string;
  readonly gapSince: Date | null;
}

export interface ListedProducer extends ProducerRow {
  /** The shards with events received or declared, by number. */
  readonly shards: readonly ProducerShard[];
}

export interface ProducerPage {
  /** The last epoch of the previous page. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** All states unless given. */
  readonly states?: readonly string[] | undefined;
}

/** Epochs, the newest first. */
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
