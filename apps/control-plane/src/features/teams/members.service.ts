import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type Change, recordChange } from '../changes/changes.service.ts';
import { assertEveryKeyGoverned, lockGovernance } from '../policies/governance.ts';
import { findPrincipal } from '../principals/rights.service.ts';
import { writePrincipal } from '../principals/writePrincipal.service.ts';
import type { MemberChanges, Membership } from './teams.schemas.ts';
import { existingTeam, type TeamDeps } from './teams.service.ts';
import { memberNotFound } from './teams.ts';

/** Puts a principal, which is created if need be, into a team, and takes it out of the one that it was in. */
export async function putTeamMember(
  deps: TeamDeps,
  caller: Caller,
  { teamId, principalId }: { readonly teamId: string; readonly principalId: string },
  { role }: MemberChanges,
): Promise<Membership> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    await existingTeam(tx, teamId);
    await assertKeepsOwnRole(tx, caller, principalId);
    await setMembership(tx, caller, principalId, { id: teamId, role }, now);
    return { team_id: teamId, principal_id: principalId, role };
  });
}

/** Throws a 403 if a caller would end its own role: a principal in a team has only the role that it was given. */
async function assertKeepsOwnRole(tx: Tx, caller: Caller, principalId: string): Promise<void> {
  if (principalId !== caller.principalId) return;
  const own = await findPrincipal(tx, principalId);
  if (own && (own.role !== null || own.team_id !== null)) return;
  throw new AppError(
    'permission',
    'own_rights',
    'You cannot put your own principal into a team: it would lose the role that its scopes name. Ask another operator, or have one give it the role operator first.',
    { param: 'principal_id' },
  );
}

/** Takes a principal out of its team. Its keys and its spend stay. */
export async function deleteTeamMember(
  deps: TeamDeps,
  caller: Caller,
  { teamId, principalId }: { readonly teamId: string; readonly principalId: string },
): Promise<Membership> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    await existingTeam(tx, teamId);
    const before = await findPrincipal(tx, principalId);
    if (before?.team_id !== teamId || before.team_role === null) throw memberNotFound();
    await setMembership(tx, caller, principalId, undefined, now);
    return { team_id: teamId, principal_id: principalId, role: before.team_role };
  });
}

/**
 * Sets the team of a principal. The caller holds the governance lock. Attempts in flight still count where they were admitted: their
 * events name their counters and their team, so a move loses nothing and counts nothing twice.
 */
export async function setMembership(
  tx: Tx,
  actor: Change['actor'],
  principalId: string,
  team: { readonly id: string; readonly role: 'member' | 'lead' } | undefined,
  now: Date,
): Promise<void> {
  const before = await findPrincipal(tx, principalId);
  const isSame =
    (before?.team_id ?? null) === (team?.id ?? null) && (before?.team_role ?? null) === (team?.role ?? null);
  if (before && isSame) return;
  await writePrincipal(tx, principalId, { team_id: team?.id ?? null, team_role: team?.role ?? null }, now);
  await assertEveryKeyGoverned(tx);
  await recordChange(tx, {
    actor,
    action: before ? 'principal.updated' : 'principal.created',
    resourceId: principalId,
    detail: {
      team_id: { from: before?.team_id ?? null, to: team?.id ?? null },
      team_role: { from: before?.team_role ?? null, to: team?.role ?? null },
    },
    at: now,
  });
}
