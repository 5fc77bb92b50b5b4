import type { Database, Keys, Tx } from '@weighbridge/database';
import type { Insertable, Selectable, Updateable } from 'kysely';

export type KeyRow = Selectable<Keys>;

export async function findKey(db: Database, id: string): Promise<KeyRow | undefined> {
  return await db.selectFrom('keys').selectAll().where('id', '=', id).executeTakeFirst();
}

/** As `findKey`, and nobody else changes it until the transaction ends. */
export async function lockKey(tx: Tx, id: string): Promise<KeyRow | undefined> {
  return await tx.selectFrom('keys').selectAll().where('id', '=', id).forUpdate().executeTakeFirst();
}

export async function findKeyBySecret(db: Database, hashes: readonly Buffer[]): Promise<KeyRow | undefined> {
  return await db
    .selectFrom('key_secrets')
    .innerJoin('keys', 'keys.id', 'key_secrets.key_id')
    .selectAll('keys')
    .where('key_secrets.secret_hash', 'in', hashes)
    .executeTakeFirst();
}

export async function insertKey(
  tx: Tx,
  row: Insertable<Keys>,
  secret: { readonly hash: Buffer; readonly pepperVersion: number },
): Promise<KeyRow> {
  const key = await tx.insertInto('keys').values(row).returningAll().executeTakeFirstOrThrow();
  await tx
    .insertInto('key_secrets')
    .values({
      secret_hash: secret.hash,
      pepper_version: secret.pepperVersion,
      key_id: key.id,
      created_at: key.created_at,
    })
    .execute();
  return key;
}

export async function updateKey(tx: Tx, id: string, changes: Updateable<Keys>): Promise<KeyRow> {
  return await tx
    .updateTable('keys')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function anyKeyExists(db: Database): Promise<boolean> {
  return (await db.selectFrom('keys').select('id').limit(1).executeTakeFirst()) !== undefined;
}

/** A principal exists from the first key that is issued to it. */
export async function ensurePrincipal(tx: Tx, id: string, now: Date): Promise<void> {
  await tx
    .insertInto('principals')
    .values({ id, created_at: now })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
}
