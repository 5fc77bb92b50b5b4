import type { Database } from '@weighbridge/database';

export interface SessionRow {
  readonly last_seen_at: Date;
  readonly expires_at: Date;
}

export async function insertSession(
  db: Database,
  row: SessionRow & { readonly id_sha256: Buffer; readonly principal_id: string; readonly created_at: Date },
): Promise<void> {
  await db.insertInto('console_sessions').values(row).execute();
}

export async function findSession(db: Database, idSha256: Buffer): Promise<SessionRow | undefined> {
  return await db
    .selectFrom('console_sessions')
    .select(['last_seen_at', 'expires_at'])
    .where('id_sha256', '=', idSha256)
    .executeTakeFirst();
}

export async function touchSession(db: Database, idSha256: Buffer, at: Date): Promise<void> {
  await db
    .updateTable('console_sessions')
    .set({ last_seen_at: at })
    .where('id_sha256', '=', idSha256)
    .execute();
}

export async function deleteSession(db: Database, idSha256: Buffer): Promise<void> {
  await db.deleteFrom('console_sessions').where('id_sha256', '=', idSha256).execute();
}

/** Deletes what ended before. */
export async function deleteEndedSessions(db: Database, now: Date): Promise<void> {
  await db.deleteFrom('console_sessions').where('expires_at', '<=', now).execute();
}
