import type { Database, Producers, Tx } from '@weighbridge/database';
import { arrayLiteral } from '@weighbridge/database';
import { type Selectable, sql } from 'kysely';
import { closeLeases } from '../leases/closeLeases.ts';

export type ProducerRow = Selectable<Producers>;

interface Epoch {
  readonly producerId: string;
  readonly epoch: string;
}

/**
 * Rows for epochs that the ledger has not heard of. Their mark is the epoch's own beginning, which its UUIDv7 tells: before
 * that it settled nothing, so nothing can be missing. Any later time, as that of the first event seen, might say too much.
 */
export async function insertProducers(tx: Tx, epochs: readonly Epoch[]): Promise<void> {
  const once = [...new Map(epochs.map((epoch) => [`${epoch.producerId}/${epoch.epoch}`, epoch])).values()];
  // To look first costs half of what a conflict does, and almost all are known.
  await sql`
    INSERT INTO producers (producer_id, epoch, first_seen_at, last_seen_at, mark_at)
    SELECT producer_id, epoch, statement_timestamp(), statement_timestamp(),
           least(to_timestamp(began_at / 1000), statement_timestamp())
    FROM unnest(
      ${arrayLiteral(once.map(({ producerId }) => producerId))}::uuid[],
      ${arrayLiteral(once.map(({ epoch }) => epoch))}::uuid[],
      ${arrayLiteral(once.map(({ epoch }) => beganAt(epoch).getTime()))}::float8[]
    ) AS epoch (producer_id, epoch, began_at)
    WHERE NOT EXISTS (
      SELECT FROM producers AS known
      WHERE known.producer_id = epoch.producer_id AND known.epoch = epoch.epoch
    )
    ORDER BY producer_id, epoch
    ON CONFLICT DO NOTHING`.execute(tx);
}

/** As SQL: it writes no more, whatever is heard of it. */
const HAS_ENDED = sql<boolean>`(producers.state = 'closed' OR producers.superseded_by IS NOT NULL)`;

export interface ProducerRegistration extends Epoch {
  /** The host or pod, for people. */
  readonly name: string;
  readonly now: Date;
}

/**
 * Says that a process writes to a spool. Whoever wrote to it before gets nothing any more; one that learns so by this has
 * to end, as has one whose epoch is closed: somebody handed over a copy of its spool. An epoch that was given up for lost
 * is open again: it lives.
 */
export async function registerProducer(
  db: Database,
  { producerId, epoch, name, now }: ProducerRegistration,
): Promise<'registered' | 'superseded'> {
  return await db.transaction().execute(async (tx) => {
    // Two at once would each miss the other's row. Then the rows that there are, in the order in which all lock them.
    await sql`SELECT pg_advisory_xact_lock(hashtextextended(${producerId}, 0))`.execute(tx);
    await sql`
      SELECT FROM producers WHERE producer_id = ${producerId} ORDER BY epoch FOR NO KEY UPDATE`.execute(tx);
    const mark = new Date(Math.min(beganAt(epoch).getTime(), now.getTime()));
    const own = await tx
      .insertInto('producers')
      .values({ producer_id: producerId, epoch, name, first_seen_at: now, last_seen_at: now, mark_at: mark })
      .onConflict((conflict) =>
        conflict.columns(['producer_id', 'epoch']).doUpdateSet({
          name,
          last_seen_at: sql<Date>`greatest(producers.last_seen_at, excluded.last_seen_at)`,
          state: sql<string>`CASE WHEN ${HAS_ENDED} THEN producers.state ELSE 'open' END`,
          ended_at: sql<Date | null>`CASE WHEN ${HAS_ENDED} THEN producers.ended_at END`,
        }),
      )
      .returning(['superseded_by', 'state'])
      .executeTakeFirstOrThrow();
    if (own.superseded_by !== null || own.state === 'closed') return 'superseded';
    await tx
      .updateTable('producers')
      .set({ superseded_by: epoch })
      .where('producer_id', '=', producerId)
      .where('epoch', '<>', epoch)
      .where('superseded_by', 'is', null)
      .execute();
    return 'registered';
  });
}

export interface Watermark extends Epoch {
  /** All that the proxy had settled before is in the ledger. */
  readonly markAt: Date;
  readonly seenAt: Date;
}

/** Notes how far proxies say that they are. A mark never goes back; one that was given up for lost is open again. */
export async function recordWatermarks(db: Database, marks: readonly Watermark[]): Promise<void> {
  if (marks.length === 0) return;
  // Locked in one order, so that several control planes never deadlock, and so that shards' rows are not held up.
  await sql`
    WITH mark AS (
      SELECT producer_id, epoch, max(least(mark_at, seen_at)) AS mark_at, max(seen_at) AS seen_at
      FROM unnest(
        ${arrayLiteral(marks.map(({ producerId }) => producerId))}::uuid[],
        ${arrayLiteral(marks.map(({ epoch }) => epoch))}::uuid[],
        ${arrayLiteral(marks.map(({ markAt }) => markAt))}::timestamptz[],
        ${arrayLiteral(marks.map(({ seenAt }) => seenAt))}::timestamptz[]
      ) AS mark (producer_id, epoch, mark_at, seen_at)
      GROUP BY producer_id, epoch
    ), locked AS (
      SELECT producer_id, epoch, mark.mark_at, mark.seen_at
      FROM producers JOIN mark USING (producer_id, epoch)
      WHERE state <> 'closed'
      ORDER BY producer_id, epoch
      FOR NO KEY UPDATE OF producers
    )
    UPDATE producers SET
      mark_at = greatest(producers.mark_at, locked.mark_at),
      last_seen_at = greatest(producers.last_seen_at, locked.seen_at),
      state = 'open', ended_at = NULL
    FROM locked
    WHERE producers.producer_id = locked.producer_id AND producers.epoch = locked.epoch`.execute(db);
}

/**
 * Says that an epoch writes no more, and the number of its last event by shard. True once the ledger has all of it; where
 * that comes later, the epoch is closed then.
 */
export async function closeEpoch(
  db: Database,
  { producerId, epoch, lastN, now }: Epoch & { readonly lastN: readonly bigint[]; readonly now: Date },
): Promise<boolean> {
  const isClosed = await db.transaction().execute(async (tx) => {
    await insertProducers(tx, [{ producerId, epoch }]);
    await sql`
      INSERT INTO producer_shards AS shard (producer_id, epoch, shard, last_n)
      SELECT ${producerId}::uuid, ${epoch}::uuid, ordinality - 1, last_n
      FROM unnest(${arrayLiteral(lastN)}::bigint[]) WITH ORDINALITY AS declared (last_n, ordinality)
      ORDER BY ordinality
      ON CONFLICT (producer_id, epoch, shard) DO UPDATE SET
        last_n = greatest(shard.last_n, excluded.last_n)`.execute(tx);
    // Whoever asks answers for it: it is not lost.
    await sql`
      UPDATE producers SET last_seen_at = greatest(last_seen_at, ${now})
      WHERE producer_id = ${producerId} AND epoch = ${epoch}`.execute(tx);
    return await closeIfComplete(tx, { producerId, epoch });
  });
  if (isClosed) await closeLeases(db);
  return isClosed;
}

/**
 * Closes an epoch of which all that was declared has come, also one whose loss was accepted: its leases end with it. Call it
 * when its shards' rows are locked.
 */
export async function closeIfComplete(tx: Tx, { producerId, epoch }: Epoch): Promise<boolean> {
  // Of two shards that get complete at once, neither sees the other before its commit: the second waits here, and then sees.
  await sql`
    SELECT FROM producers WHERE producer_id = ${producerId} AND epoch = ${epoch} FOR NO KEY UPDATE`.execute(
    tx,
  );
  const { rows } = await sql<{ complete: boolean }>`
    SELECT coalesce(bool_and(last_n IS NOT NULL AND recorded_n >= last_n), false) AS complete
    FROM producer_shards WHERE producer_id = ${producerId} AND epoch = ${epoch}`.execute(tx);
  if (!rows[0]?.complete) return false;
  await sql`
    UPDATE producers SET state = 'closed', ended_at = statement_timestamp()
    WHERE producer_id = ${producerId} AND epoch = ${epoch} AND state <> 'closed'`.execute(tx);
  return true;
}

/** Gives up those that nobody has answered for since then, and returns them. Whatever still comes of them is recorded. */
export async function markLost(
  db: Database,
  { silentSince, now }: { readonly silentSince: Date; readonly now: Date },
): Promise<ProducerRow[]> {
  return await db
    .updateTable('producers')
    .set({ state: 'lost', ended_at: now })
    .where('state', '=', 'open')
    .where('last_seen_at', '<', silentSince)
    .returningAll()
    .execute();
}

/** Accepts that what is missing of a lost epoch never comes. Undefined where it is not lost, or unknown. */
export async function retireProducer(
  db: Database,
  { epoch, retiredBy, now }: { readonly epoch: string; readonly retiredBy: string; readonly now: Date },
): Promise<ProducerRow | undefined> {
  return await db
    .updateTable('producers')
    .set({ state: 'retired', retired_by: retiredBy, ended_at: now })
    .where('epoch', '=', epoch)
    .where('state', '=', 'lost')
    .returningAll()
    .executeTakeFirst();
}

/** Forgets epochs that ended well, or were accepted as lost, so long ago, and of which no lease is kept (pruneLeases.ts). */
export async function pruneProducers(
  db: Database,
  { endedBefore }: { readonly endedBefore: Date },
): Promise<void> {
  await sql`
    WITH forgotten AS (
      SELECT producer_id, epoch FROM producers
      WHERE state IN ('closed', 'retired') AND ended_at < ${endedBefore}
        AND NOT EXISTS (
          SELECT FROM budget_leases AS lease
          WHERE lease.producer_id = producers.producer_id AND lease.epoch = producers.epoch
        )
      FOR UPDATE
    ), shards AS (
      DELETE FROM producer_shards AS shard USING forgotten
      WHERE shard.producer_id = forgotten.producer_id AND shard.epoch = forgotten.epoch
    )
    DELETE FROM producers AS producer USING forgotten
    WHERE producer.producer_id = forgotten.producer_id AND producer.epoch = forgotten.epoch`.execute(db);
}

/** The last instant that Postgres reads as JavaScript writes it. */
const MAX_TIME_MS = Date.UTC(9999, 11, 31);

/**
 * When an epoch began, by its UUIDv7 (https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7). One of another version
 * does not tell: the beginning of all times then, which never says too much.
 */
function beganAt(epoch: string): Date {
  if (epoch[14] !== '7') return new Date(0);
  return new Date(Math.min(Number.parseInt(epoch.slice(0, 8) + epoch.slice(9, 13), 16), MAX_TIME_MS));
}
