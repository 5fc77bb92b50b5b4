import type { Database } from '@weighbridge/database';
import { isPrincipalId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordChange } from '../changes/changes.service.ts';
import { assertEveryKeyGoverned, lockGovernance } from '../policies/governance.ts';
import { policyExists } from '../policies/policies.service.ts';
import {
  findPrincipal,
  findPrincipals,
  type PrincipalRow,
  upsertPrincipal,
} from './principals.repository.ts';
import type { Principal, PrincipalChanges, PrincipalListQuery } from './principals.schemas.ts';

export interface PrincipalDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export async function principalExists(db: Database, id: string): Promise<boolean> {
  return (await findPrincipal(db, id)) !== undefined;
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
  const filter = { policyId: query.policy_id, idContains: query.id_contains };
  const rows = await findPrincipals(deps.db, filter, request.after?.[0], request.size + 1);
  return page('principals', request, rows, (row) => [row.id], present);
}

/** Throws a 404 for an id that no principal can have. */
export function assertPrincipalId(id: string): void {
  if (isPrincipalId(id)) return;
  const message =
    'No principal can have this id. It must be 1 to 200 printable characters, without spaces at its ends, and neither "." nor "..".';
  throw new AppError('not_found', 'principal_not_found', message, { param: 'principal_id' });
}

/** Creates a principal, or changes its policy. */
export async function putPrincipal(
  deps: PrincipalDeps,
  caller: Caller,
  id: string,
  input: PrincipalChanges,
): Promise<Principal> {
  const now = deps.now();
  const policyId = input.policy_id;
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const before = await findPrincipal(tx, id);
    if (before && before.policy_id === policyId) return present(before);
    if (policyId !== null && !(await policyExists(tx, policyId))) {
      throw new AppError('validation', 'policy_not_found', 'There is no policy with this policy_id.', {
        param: 'policy_id',
      });
    }
    const row = await upsertPrincipal(tx, id, policyId, now);
    await assertEveryKeyGoverned(tx);
    const detail = { policy_id: { from: before?.policy_id ?? null, to: policyId } };
    const action = before ? 'principal.updated' : 'principal.created';
    await recordChange(tx, { actor: caller, action, resourceId: id, detail, at: now });
    return present(row);
  });
}

function present(row: PrincipalRow): Principal {
  return { id: row.id, policy_id: row.policy_id, created_at: row.created_at.toISOString() };
}
