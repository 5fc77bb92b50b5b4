import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';

export interface PlaygroundKey {
  readonly key_id: string;
  readonly principal_id: string;
  readonly session_sha256: Buffer | null;
  readonly created_at: Date;
}

export async function insertPlaygroundKey(tx: Tx, row: PlaygroundKey): Promise<void> {
  await tx.insertInto('playground_keys').values(row).execute();
}

/** The playground keys of a principal that expired, and all but the newest of those that did not. */
export async function findSupersededPlaygroundKeys(
  db: Database,
  { principalId, now, most }: { readonly principalId: string; readonly now: Date; readonly most: number },
): Promise<string[]> {
  const { rows } = await sql<{ key_id: string }>`
    SELECT key_id FROM (
      SELECT key_id, keys.expires_at, row_number() OVER (ORDER BY playground_keys.created_at DESC, key_id DESC) AS place
      FROM playground_keys JOIN keys ON keys.id = key_id
      WHERE playground_keys.principal_id = ${principalId}
    ) AS placed
    WHERE expires_at <= ${now} OR place > ${most}`.execute(db);
  return rows.map(({ key_id }) => key_id);
}

export async function findPlaygroundKeysOfSession(db: Database, sessionSha256: Buffer): Promise<string[]> {
  const rows = await db
    .selectFrom('playground_keys')
    .select('key_id')
    .where('session_sha256', '=', sessionSha256)
    .execute();
  return rows.map(({ key_id }) => key_id);
}

export async function deletePlaygroundKeys(tx: Tx, keyIds: readonly string[]): Promise<void> {
  await sql`DELETE FROM playground_keys WHERE key_id = ANY (${arrayLiteral(keyIds)}::text[])`.execute(tx);
}
