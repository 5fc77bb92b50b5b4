import type { Database, StoredResponses, Tx } from '@weighbridge/database';
import { type Selectable, sql } from 'kysely';

export type StoredResponseRow = Selectable<StoredResponses>;

/** Stores the owner of a response. The first owner of an id at a connector stays, and the largest container that it was recorded with. */
export async function insertStoredResponse(db: Database, row: StoredResponseRow): Promise<void> {
  await db
    .insertInto('stored_responses')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['response_id', 'connector_id'])
        .doUpdateSet((eb) => ({ container_gb: eb.ref('excluded.container_gb') }))
        .whereRef('stored_responses.principal_id', '=', 'excluded.principal_id')
        .whereRef('stored_responses.container_gb', '<', 'excluded.container_gb'),
    )
    .execute();
}

/** The responses of all principals with these ids. */
export async function findStoredResponses(
  db: Database,
  ids: readonly string[],
): Promise<StoredResponseRow[]> {
  // As for objects: one look-up for each id.
  const { rows } = await sql<StoredResponseRow>`
    SELECT stored.*
    FROM (SELECT DISTINCT unnest(${[...ids]}::text[])) AS wanted (id)
    CROSS JOIN LATERAL (SELECT * FROM stored_responses WHERE response_id = wanted.id OFFSET 0) AS stored
    ORDER BY stored.created_at`.execute(db);
  return rows;
}

/** Reads a response and locks it until the transaction ends. */
export async function lockStoredResponse(
  tx: Tx,
  responseId: string,
  connectorId: string,
): Promise<StoredResponseRow | undefined> {
  return await tx
    .selectFrom('stored_responses')
    .selectAll()
    .where('response_id', '=', responseId)
    .where('connector_id', '=', connectorId)
    .forUpdate()
    .executeTakeFirst();
}

export async function markSettled(
  tx: Tx,
  { response_id, connector_id }: Pick<StoredResponseRow, 'response_id' | 'connector_id'>,
  at: Date,
): Promise<void> {
  await tx
    .updateTable('stored_responses')
    .set({ settled_at: at })
    .where('response_id', '=', response_id)
    .where('connector_id', '=', connector_id)
    .execute();
}

/** The unfinished responses of a spool that are not settled and were created after a time, the oldest first. */
export async function findUnsettledResponses(
  db: Database,
  { producerId, after, limit }: { producerId: string; after: Date; limit: number },
): Promise<StoredResponseRow[]> {
  return await db
    .selectFrom('stored_responses')
    .selectAll()
    .where('producer_id', '=', producerId)
    .where('event_id', 'is not', null)
    .where('settled_at', 'is', null)
    .where('created_at', '>', after)
    .orderBy('created_at')
    .limit(limit)
    .execute();
}

/** Whether a process on this spool was connected after a time. */
export async function wasProducerSeen(tx: Tx, producerId: string, after: Date): Promise<boolean> {
  const seen = await tx
    .selectFrom('producers')
    .select('epoch')
    .where('producer_id', '=', producerId)
    .where('last_seen_at', '>', after)
    .limit(1)
    .executeTakeFirst();
  return seen !== undefined;
}

/** Deletes up to `limit` responses that were created before a time; returns how many. */
export async function deleteStoredResponses(db: Database, before: Date, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    DELETE FROM stored_responses WHERE ctid IN (
      SELECT ctid FROM stored_responses WHERE created_at < ${before} ORDER BY created_at LIMIT ${limit}
    )`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
