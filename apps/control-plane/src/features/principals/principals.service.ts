import type { Database } from '@weighbridge/database';
import { isPrincipalId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import { disableWithPrincipal } from '../keys/deactivation.service.ts';
import { assertEveryKeyGoverned, lockGovernance } from '../policies/governance.ts';
import { policyExists } from '../policies/policies.service.ts';
import { findPrincipal, findPrincipals, type PrincipalRow } from './principals.repository.ts';
import type { Principal, PrincipalChanges, PrincipalListQuery } from './principals.schemas.ts';
import { writePrincipal } from './writePrincipal.service.ts';

export interface PrincipalDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export async function readPrincipal(deps: PrincipalDeps, id: string): Promise<Principal> {
  const row = isPrincipalId(id) ? await findPrincipal(deps.db, id) : undefined;
  const notFound = new AppError('not_found', 'principal_not_found', 'There is no principal with this id.', {
    param: 'principal_id',
  });
  return present(row ?? raise(notFound));
}

export async function listPrincipals(
  deps: PrincipalDeps,
  query: PrincipalListQuery,
): Promise<PageOf<Principal>> {
  const request = pageRequest('principals', query, positionOf(part.text));
  const filter = {
    policyId: query.policy_id,
    teamId: query.team_id,
    role: query.role,
    isActive: query.active === undefined ? undefined : query.active === 'true',
    idContains: query.id_contains,
  };
  const rows = await findPrincipals(deps.db, filter, request.after?.[0], request.size + 1);
  return page('principals', request, rows, (row) => [row.id], present);
}

export async function principalExists(db: Database, id: string): Promise<boolean> {
  return (await findPrincipal(db, id)) !== undefined;
}

/** Throws a 404 for an id that no principal can have. */
export function assertPrincipalId(id: string): void {
  if (isPrincipalId(id)) return;
  const message =
    'No principal can have this id. It must be 1 to 200 printable characters, without spaces at its ends, and neither "." nor "..".';
  throw new AppError('not_found', 'principal_not_found', message, { param: 'principal_id' });
}

/** Creates a principal, or changes it. Deactivating it disables its keys; activating it enables those again. */
export async function putPrincipal(
  deps: PrincipalDeps,
  caller: Caller,
  id: string,
  input: PrincipalChanges,
  assertMatch: AssertMatch,
): Promise<Principal> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const row = await findPrincipal(tx, id);
    assertMatch(row && present(row));
    const before = settingsOf(row);
    const changed = fieldChanges<Required<PrincipalChanges>>(before, input);
    if (row && Object.keys(changed).length === 0) return present(row);
    assertNotOwnRights(caller, id, changed);
    const after = { ...before, ...input };
    if (after.policy_id !== null && !(await policyExists(tx, after.policy_id))) {
      throw new AppError('validation', 'policy_not_found', 'There is no policy with this policy_id.', {
        param: 'policy_id',
      });
    }
    const deactivatedAt = after.active ? null : (row?.deactivated_at ?? now);
    const { policy_id, role } = after;
    await writePrincipal(tx, id, { policy_id, role, deactivated_at: deactivatedAt }, now);
    const keys = changed.active ? await disableWithPrincipal(tx, id, !after.active, now) : 0;
    await assertEveryKeyGoverned(tx);
    const detail = {
      ...changed,
      ...(keys > 0 && { [after.active ? 'keys_enabled' : 'keys_disabled']: keys }),
    };
    const action = row ? 'principal.updated' : 'principal.created';
    await recordChange(tx, { actor: caller, action, resourceId: id, detail, at: now });
    const ofTeam = row ?? { team_id: null, team_name: null, team_role: null, created_at: now };
    return present({ ...ofTeam, id, policy_id, role, deactivated_at: deactivatedAt });
  });
}

function settingsOf(row: PrincipalRow | undefined): Required<PrincipalChanges> {
  return {
    policy_id: row?.policy_id ?? null,
    role: row?.role ?? null,
    active: row === undefined || row.deactivated_at === null,
  };
}

/** Nobody lifts itself: what its role is, and whether it may act at all, another operator says. */
function assertNotOwnRights(caller: Caller, id: string, changed: object): void {
  if (id !== caller.principalId) return;
  const field = ['role', 'active'].find((name) => name in changed);
  if (field === undefined) return;
  throw new AppError(
    'permission',
    'own_rights',
    `You cannot change the ${field === 'role' ? 'role' : 'activity'} of your own principal. Ask another operator.`,
    { param: field },
  );
}

function present(row: PrincipalRow): Principal {
  return {
    id: row.id,
    ...settingsOf(row),
    team_id: row.team_id,
    team_name: row.team_name,
    team_role: row.team_role,
    created_at: row.created_at.toISOString(),
  };
}
