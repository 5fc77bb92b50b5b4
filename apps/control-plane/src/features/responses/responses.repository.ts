import type { Database, StoredResponses } from '@weighbridge/database';
import { type Selectable, sql } from 'kysely';

export type StoredResponseRow = Selectable<StoredResponses>;

/** Keeps whose a response is. The first to record an id of an account stays its owner. */
export async function insertStoredResponse(db: Database, row: StoredResponseRow): Promise<void> {
  await db
    .insertInto('stored_responses')
    .values(row)
    .onConflict((conflict) => conflict.columns(['response_id', 'connector_id']).doNothing())
    .execute();
}

/** Everybody's responses of this id that are younger than `after`. */
export async function findStoredResponses(
  db: Database,
  responseId: string,
  after: Date,
): Promise<StoredResponseRow[]> {
  return await db
    .selectFrom('stored_responses')
    .selectAll()
    .where('response_id', '=', responseId)
    .where('created_at', '>', after)
    .orderBy('created_at')
    .execute();
}

/** Forgets some of what is older than `before`; returns how many there were. */
export async function deleteStoredResponses(db: Database, before: Date, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    DELETE FROM stored_responses WHERE ctid IN (
      SELECT ctid FROM stored_responses WHERE created_at < ${before} ORDER BY created_at LIMIT ${limit}
    )`.execute(db);
  return Number(numAffectedRows ?? 0n);
}
