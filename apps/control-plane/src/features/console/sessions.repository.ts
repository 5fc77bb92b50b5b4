import type { Database } from '@weighbridge/database';

export interface SessionRow {
  readonly last_seen_at: Date;
  readonly expires_at: Date;
}

export async function insertSession(
  db: Database,
  row: SessionRow & {
    readonly id_sha256: Buffer;
    readonly principal_id: string;
    readonly created_at: Date;
    /** Null: it has none. */
    readonly id_token_sealed: Buffer | null;
  },
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

/** Returns its sealed ID token; null: it has none. */
export async function deleteSession(db: Database, idSha256: Buffer): Promise<Buffer | null> {
  const row = await db
    .deleteFrom('console_sessions')
    .where('id_sha256', '=', idSha256)
    .returning('id_token_sealed')
    .executeTakeFirst();
  return row?.id_token_sealed ?? null;
}

/** Deletes what ended before. */
export async function deleteEndedSessions(db: Database, now: Date): Promise<void> {
  await db.deleteFrom('console_sessions').where('expires_at', '<=', now).execute();
}

/** Notes that a sign-in was answered; false: it was before. */
export async function takeSignIn(
  db: Database,
  row: { readonly state_sha256: Buffer; readonly expires_at: Date },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('console_sign_ins')
    .values(row)
    .onConflict((conflict) => conflict.column('state_sha256').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

/** Deletes what can't be answered any more. */
export async function deleteEndedSignIns(db: Database, now: Date): Promise<void> {
  await db.deleteFrom('console_sign_ins').where('expires_at', '<=', now).execute();
}
