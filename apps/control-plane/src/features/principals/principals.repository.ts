import type { Database, Principals, Tx } from '@weighbridge/database';
import type { Selectable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type PrincipalRow = Selectable<Principals>;

export async function findPrincipal(db: Database, id: string): Promise<PrincipalRow | undefined> {
  return await db.selectFrom('principals').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Principals by id, after a given one. */
export async function findPrincipals(
  db: Database,
  filter: { readonly policyId?: string | undefined; readonly idContains?: string | undefined },
  after: string | undefined,
  limit: number,
): Promise<PrincipalRow[]> {
  let query = db.selectFrom('principals').selectAll();
  if (filter.policyId !== undefined) query = query.where('policy_id', '=', filter.policyId);
  if (filter.idContains !== undefined) query = query.where(containsText('id', filter.idContains));
  if (after !== undefined) query = query.where('id', '>', after);
  return await query.orderBy('id').limit(limit).execute();
}

/** Creates a principal, or changes its policy. */
export async function upsertPrincipal(
  tx: Tx,
  id: string,
  policyId: string | null,
  now: Date,
): Promise<PrincipalRow> {
  return await tx
    .insertInto('principals')
    .values({ id, policy_id: policyId, created_at: now })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ policy_id: policyId }))
    .returningAll()
    .executeTakeFirstOrThrow();
}
