import type { Principals, Tx } from '@weighbridge/database';
import type { Insertable } from 'kysely';

type Columns = Partial<Omit<Insertable<Principals>, 'id' | 'created_at'>>;

/**
 * Creates a principal, or changes these columns of it. Nothing else writes `principals`: a principal exists from its first key, its
 * first token, its team, or its settings. Resolves with whether a row was created or changed; without columns, whether it was
 * created.
 */
export async function writePrincipal(tx: Tx, id: string, columns: Columns, now: Date): Promise<boolean> {
  const changes = Object.keys(columns).length > 0;
  const { numInsertedOrUpdatedRows = 0n } = await tx
    .insertInto('principals')
    .values({ id, created_at: now, ...columns })
    .onConflict((conflict) =>
      changes ? conflict.column('id').doUpdateSet(columns) : conflict.column('id').doNothing(),
    )
    .executeTakeFirst();
  return numInsertedOrUpdatedRows > 0n;
}

/** Locks a principal until the transaction ends. Keys can still be issued to it. */
export async function lockPrincipal(tx: Tx, id: string): Promise<void> {
  await tx.selectFrom('principals').select('id').where('id', '=', id).forNoKeyUpdate().execute();
}
