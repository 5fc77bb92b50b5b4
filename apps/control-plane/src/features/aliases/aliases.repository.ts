import type { Aliases, Database, Tx } from '@weighbridge/database';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type AliasRow = Selectable<Aliases>;

export async function findAlias(db: Database, id: string): Promise<AliasRow | undefined> {
  return await db.selectFrom('aliases').selectAll().where('id', '=', id).executeTakeFirst();
}

/** A page of aliases by name, then id. */
export async function findAliases(
  db: Database,
  filter: { readonly nameContains?: string | undefined; readonly policyId?: string | undefined },
  after: { readonly name: string; readonly id: string } | undefined,
  limit: number,
): Promise<AliasRow[]> {
  const { nameContains, policyId } = filter;
  return await db
    .selectFrom('aliases')
    .selectAll()
    .$if(nameContains !== undefined, (query) => query.where(containsText('name', nameContains ?? '')))
    .$if(policyId !== undefined, (query) => query.where('policy_id', '=', policyId ?? ''))
    .$if(after !== undefined, (query) =>
      query.where(({ eb, refTuple, tuple }) =>
        eb(refTuple('name', 'id'), '>', tuple(after?.name ?? '', after?.id ?? '')),
      ),
    )
    .orderBy('name')
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function findAliasByName(
  tx: Tx,
  name: string,
  policyId: string | null,
): Promise<AliasRow | undefined> {
  return await tx
    .selectFrom('aliases')
    .selectAll()
    .where('name', '=', name)
    .where('policy_id', policyId === null ? 'is' : '=', policyId)
    .executeTakeFirst();
}

/** One change of aliases at a time: their number and their names are checked first. Released at the end of the transaction. */
export async function lockAliases(tx: Tx): Promise<void> {
  await sql`LOCK TABLE aliases IN SHARE ROW EXCLUSIVE MODE`.execute(tx);
}

export async function countAliases(tx: Tx): Promise<number> {
  const { count } = await tx
    .selectFrom('aliases')
    .select((row) => row.fn.countAll<bigint>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

export async function insertAlias(tx: Tx, row: Insertable<Aliases>): Promise<AliasRow> {
  return await tx.insertInto('aliases').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updateAlias(tx: Tx, id: string, changes: Updateable<Aliases>): Promise<AliasRow> {
  return await tx
    .updateTable('aliases')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function removeAlias(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('aliases').where('id', '=', id).execute();
}
