import type { Database, Principals } from '@weighbridge/database';
import type { Selectable } from 'kysely';
import type { Role } from '../../shared/caller.ts';
import { containsText } from '../../shared/containsText.ts';

export type PrincipalRow = Selectable<Principals> & { readonly team_name: string | null };

const withTeam = (db: Database) =>
  db
    .selectFrom('principals')
    .leftJoin('teams', 'teams.id', 'principals.team_id')
    .selectAll('principals')
    .select('teams.name as team_name');

export async function findPrincipal(db: Database, id: string): Promise<PrincipalRow | undefined> {
  return await withTeam(db).where('principals.id', '=', id).executeTakeFirst();
}

interface PrincipalFilter {
  readonly policyId?: string | undefined;
  readonly teamId?: string | undefined;
  readonly role?: Role | undefined;
  readonly isActive?: boolean | undefined;
  readonly idContains?: string | undefined;
}

/** Principals by id, after a given one. */
export async function findPrincipals(
  db: Database,
  { policyId, teamId, role, isActive, idContains }: PrincipalFilter,
  after: string | undefined,
  limit: number,
): Promise<PrincipalRow[]> {
  let query = withTeam(db);
  if (policyId !== undefined) query = query.where('principals.policy_id', '=', policyId);
  if (teamId !== undefined) query = query.where('principals.team_id', '=', teamId);
  if (role !== undefined) query = query.where('principals.role', '=', role);
  if (isActive !== undefined)
    query = query.where('principals.deactivated_at', isActive ? 'is' : 'is not', null);
  if (idContains !== undefined) query = query.where(containsText('principals.id', idContains));
  if (after !== undefined) query = query.where('principals.id', '>', after);
  return await query.orderBy('principals.id').limit(limit).execute();
}
