import { arrayLiteral, type Database, type Producers, type Tx } from '@weighbridge/database';
import { type Selectable, sql } from 'kysely';
import { limitedPause, limitPause } from '../buckets/limitPause.ts';
import { type NewWebhookEvent, recordWebhookEvents } from '../webhookEvents/webhookEvents.ts';

export type ProducerRow = Selectable<Producers>;

interface Epoch {
  readonly producerId: string;
  readonly epoch: string;
}

/**
 * Inserts rows for epochs that the ledger doesn't know yet. Their watermark is the start of the epoch, from its UUIDv7: nothing
 * was settled before it, so nothing is missing. A later time, such as that of the first event seen, could be too late.
 */
export async function insertProducers(tx: Tx, epochs: readonly Epoch[]): Promise<void> {
  const once = [...new Map(epochs.map((epoch) => [`${epoch.producerId}/${epoch.epoch}`, epoch])).values()];
  // Almost all epochs are known, and NOT EXISTS costs half of a conflict.
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

/** An SQL expression: the epoch writes no more events. */
const HAS_ENDED = sql<boolean>`(producers.state = 'closed' OR producers.superseded_by IS NOT NULL)`;

export interface ProducerRegistration extends Epoch {
  /** The host or pod, for operators. */
  readonly name: string;
  /** False: a proxy of release 0.1.0. Default true. */
  readonly signsUsage?: boolean;
  readonly now: Date;
}

/**
 * Registers a process as the writer of a spool, and supersedes its earlier writers, which are granted nothing more. A process
 * that is itself superseded, or whose epoch is closed because a copy of its spool was replayed, has to exit. An epoch marked
 * lost is open again. An epoch that is known of another producer is not this one's.
 */
export async function registerProducer(
  db: Database,
  { producerId, epoch, name, signsUsage = true, now }: ProducerRegistration,
): Promise<'registered' | 'superseded' | 'foreign'> {
  return await db.transaction().execute(async (tx) => {
    // Two concurrent registrations would each miss the other's row. Existing rows are locked in the order that all writers use.
    await sql`SELECT pg_advisory_xact_lock(hashtextextended(${producerId}, 0)), ${limitedPause()}`.execute(
      tx,
    );
    await sql`
      SELECT FROM producers WHERE producer_id = ${producerId} ORDER BY epoch FOR NO KEY UPDATE`.execute(tx);
    if (await isForeign(tx, { producerId, epoch })) return 'foreign';
    const watermark = new Date(Math.min(beganAt(epoch).getTime(), now.getTime()));
    const own = await tx
      .insertInto('producers')
      .values({
        producer_id: producerId,
        epoch,
        name,
        signs_usage: signsUsage,
        first_seen_at: now,
        last_seen_at: now,
        mark_at: watermark,
      })
      .onConflict((conflict) =>
        conflict.columns(['producer_id', 'epoch']).doUpdateSet({
          name,
          signs_usage: signsUsage,
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

/** Whether another producer had the epoch first: epochs are random, so it was not by chance. */
async function isForeign(tx: Tx, { producerId, epoch }: Epoch): Promise<boolean> {
  const first = await tx
    .selectFrom('producers')
    .select('producer_id')
    .where('epoch', '=', epoch)
    .orderBy('first_seen_at')
    .orderBy('producer_id')
    .limit(1)
    .executeTakeFirst();
  return first !== undefined && first.producer_id !== producerId;
}

export interface Watermark extends Epoch {
  /** The ledger has everything that the proxy settled before this time. */
  readonly markAt: Date;
  readonly seenAt: Date;
}

/** Records the watermarks that proxies report. A watermark never decreases. An epoch marked lost is open again. */
export async function recordWatermarks(db: Database, marks: readonly Watermark[]): Promise<void> {
  if (marks.length === 0) return;
  // One lock order, so that several control planes never deadlock.
  await sql`
    WITH reported AS (
      SELECT producer_id, epoch, max(least(mark_at, seen_at)) AS mark_at, max(seen_at) AS seen_at
      FROM unnest(
        ${arrayLiteral(marks.map(({ producerId }) => producerId))}::uuid[],
        ${arrayLiteral(marks.map(({ epoch }) => epoch))}::uuid[],
        ${arrayLiteral(marks.map(({ markAt }) => markAt))}::timestamptz[],
        ${arrayLiteral(marks.map(({ seenAt }) => seenAt))}::timestamptz[]
      ) AS reported (producer_id, epoch, mark_at, seen_at)
      GROUP BY producer_id, epoch
    ), locked AS (
      SELECT producer_id, epoch, reported.mark_at, reported.seen_at
      FROM producers JOIN reported USING (producer_id, epoch)
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
 * Declares that an epoch writes no more, with the number of its last event by shard. True if the ledger has all of its events;
 * otherwise the epoch closes when the last of them arrives.
 */
export async function closeEpoch(
  db: Database,
  { producerId, epoch, lastN, now }: Epoch & { readonly lastN: readonly bigint[]; readonly now: Date },
): Promise<boolean> {
  return await db.transaction().execute(async (tx) => {
    await limitPause(tx);
    await insertProducers(tx, [{ producerId, epoch }]);
    await sql`
      INSERT INTO producer_shards AS shard (producer_id, epoch, shard, last_n)
      SELECT ${producerId}::uuid, ${epoch}::uuid, ordinality - 1, last_n
      FROM unnest(${arrayLiteral(lastN)}::bigint[]) WITH ORDINALITY AS declared (last_n, ordinality)
      ORDER BY ordinality
      ON CONFLICT (producer_id, epoch, shard) DO UPDATE SET
        last_n = greatest(shard.last_n, excluded.last_n)`.execute(tx);
    // The request shows that the epoch's spool is not lost.
    await sql`
      UPDATE producers SET last_seen_at = greatest(last_seen_at, ${now})
      WHERE producer_id = ${producerId} AND epoch = ${epoch}`.execute(tx);
    return await closeIfComplete(tx, { producerId, epoch });
  });
}

/**
 * Closes an epoch if the ledger has every event that it declared, even if its loss was accepted. Call it with its shards' rows
 * locked. Metering closes its leases after the commit (`closeLeases`).
 */
export async function closeIfComplete(tx: Tx, { producerId, epoch }: Epoch): Promise<boolean> {
  // Two shards may complete at the same time, and neither sees the other before its commit. The second waits here for it.
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

/** Marks epochs without a sign of life since `silentSince` as lost, and returns them. Events of theirs that arrive later are recorded. */
export async function markLost(
  db: Database,
  { silentSince, now }: { readonly silentSince: Date; readonly now: Date },
): Promise<ProducerRow[]> {
  return await db.transaction().execute(async (tx) => {
    const lost = await tx
      .updateTable('producers')
      .set({ state: 'lost', ended_at: now })
      .where('state', '=', 'open')
      .where('last_seen_at', '<', silentSince)
      .returningAll()
      .execute();
    await recordWebhookEvents(tx, lost.map(lostEvent), now);
    return lost;
  });
}

function lostEvent({ producer_id, epoch, name, last_seen_at }: ProducerRow): NewWebhookEvent {
  const data = { kind: 'lost', producer_id, proxy_id: epoch, name, since: last_seen_at.toISOString() };
  return { type: 'usage.gap', onceKey: `lost/${epoch}`, data };
}

/** Accepts that a lost epoch's missing events never arrive. Undefined if the epoch is not lost, or unknown. */
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

/** Deletes closed and retired epochs that ended before a time and have no lease left (see `pruneLeases`). */
export async function pruneProducers(
  db: Database,
  { endedBefore }: { readonly endedBefore: Date },
): Promise<void> {
  await sql`
    WITH pruned AS (
      SELECT producer_id, epoch FROM producers
      WHERE state IN ('closed', 'retired') AND ended_at < ${endedBefore}
        AND NOT EXISTS (
          SELECT FROM budget_leases AS lease
          WHERE lease.producer_id = producers.producer_id AND lease.epoch = producers.epoch
        )
      FOR UPDATE
    ), shards AS (
      DELETE FROM producer_shards AS shard USING pruned
      WHERE shard.producer_id = pruned.producer_id AND shard.epoch = pruned.epoch
    )
    DELETE FROM producers AS producer USING pruned
    WHERE producer.producer_id = pruned.producer_id AND producer.epoch = pruned.epoch`.execute(db);
}

/** Postgres and JavaScript write later times differently. */
const MAX_TIME_MS = Date.UTC(9999, 11, 31);

/**
 * When an epoch began, from its UUIDv7 (https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7). Other versions carry no
 * time: the Unix epoch then, which is never too late.
 */
function beganAt(epoch: string): Date {
  if (epoch[14] !== '7') return new Date(0);
  return new Date(Math.min(Number.parseInt(epoch.slice(0, 8) + epoch.slice(9, 13), 16), MAX_TIME_MS));
}
