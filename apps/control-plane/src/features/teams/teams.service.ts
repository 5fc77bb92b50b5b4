import type { Database, Tx } from '@weighbridge/database';
import { isId, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import { assertEveryKeyGoverned, lockGovernance } from '../policies/governance.ts';
import { policyExists } from '../policies/policies.service.ts';
import {
  findLine,
  findTeam,
  findTeamByName,
  findTeams,
  findTeamUse,
  insertTeam,
  type TeamRow,
  teamDepthBelow,
  updateTeam,
} from './teams.repository.ts';
import type { NewTeam, Team, TeamChanges, TeamQuery, TeamSettings } from './teams.schemas.ts';
import {
  MAX_TEAM_DEPTH,
  parentTeamNotFound,
  teamCycle,
  teamInUse,
  teamNameTaken,
  teamNotFound,
  teamTooDeep,
} from './teams.ts';

export {
  findLine,
  findPoliciesOfTeams,
  findTeam,
  findTeamByName,
  isPolicyOfTeams,
} from './teams.repository.ts';
export type { TeamRow };

export interface TeamDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export async function existingTeam(db: Database, id: string): Promise<TeamRow> {
  const row = isId('team', id) ? await findTeam(db, id) : undefined;
  return row ?? raise(teamNotFound());
}

/** Teams, newest first; with `ids`, only those. */
export async function listTeams(
  deps: TeamDeps,
  query: TeamQuery,
  ids: readonly string[] | undefined,
): Promise<PageOf<Team>> {
  const request = pageRequest('teams', query, positionOf(part.time, part.id('team')));
  const [createdAt, id] = request.after ?? [];
  const rows = await findTeams(
    deps.db,
    {
      nameContains: query.name_contains,
      parentTeamId: query.parent_team_id,
      policyId: query.policy_id,
      isFrozen: query.frozen === undefined ? undefined : query.frozen === 'true',
      ids,
    },
    createdAt && id ? { createdAt: new Date(createdAt), id } : undefined,
    request.size + 1,
  );
  return page('teams', request, rows, (row) => [row.created_at.toISOString(), row.id], toTeam);
}

export async function createTeam(deps: TeamDeps, caller: Caller, input: NewTeam): Promise<Team> {
  const now = deps.now();
  const name = validDisplayName(input.name);
  const { parent_team_id = null, policy_id = null, member_policy_id = null } = input;
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const id = newId('team');
    const settings = { name, parent_team_id, policy_id, member_policy_id };
    await assertReferences(tx, id, settings);
    const row = await insertTeam(tx, { id, ...settings, created_at: now, updated_at: now });
    const change = { actor: caller, action: 'team.created', resourceId: id, detail: { ...input }, at: now };
    await recordChange(tx, change);
    return toTeam(row);
  });
}

export async function changeTeam(
  deps: TeamDeps,
  caller: Caller,
  id: string,
  input: TeamChanges,
  assertMatch: AssertMatch,
): Promise<Team> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const before = toTeam(await existingTeam(tx, id));
    assertMatch(before);
    const wanted = { ...input, ...(input.name !== undefined && { name: validDisplayName(input.name) }) };
    const changed = fieldChanges<TeamSettings>(before, wanted);
    const names = Object.keys(changed);
    if (names.length === 0) return before;
    await assertReferences(tx, id, wanted);
    const row = await updateTeam(tx, id, { ...wanted, updated_at: now });
    await assertEveryKeyGoverned(tx);
    await recordChange(tx, {
      actor: caller,
      action: 'team.updated',
      resourceId: id,
      detail: { changed },
      // Its policies count for keys that do not name it. Its name does not.
      reach: names.some((field) => field !== 'name') ? 'all' : 'own',
      at: now,
    });
    return toTeam(row);
  });
}

/** Freezes a team, or ends that. Repeating it changes nothing. */
export async function setFrozen(
  deps: TeamDeps,
  caller: Caller,
  id: string,
  isFrozen: boolean,
  assertMatch: AssertMatch,
): Promise<Team> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const before = await existingTeam(tx, id);
    assertMatch(toTeam(before));
    if ((before.frozen_at !== null) === isFrozen) return toTeam(before);
    const row = await updateTeam(tx, id, { frozen_at: isFrozen ? now : null, updated_at: now });
    const action = isFrozen ? 'team.frozen' : 'team.unfrozen';
    const detail = { name: row.name };
    await recordChange(tx, { actor: caller, action, resourceId: id, detail, reach: 'all', at: now });
    return toTeam(row);
  });
}

/** Deletes a team; a 409 while it has members or teams below it. */
export async function deleteTeam(
  deps: TeamDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<Team> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'exclusive');
    const before = await existingTeam(tx, id);
    assertMatch(toTeam(before));
    const use = await findTeamUse(tx, id);
    if (use !== undefined) throw teamInUse(use);
    const row = await updateTeam(tx, id, { deleted_at: now, updated_at: now });
    const detail = { name: before.name };
    await recordChange(tx, { actor: caller, action: 'team.deleted', resourceId: id, detail, at: now });
    return toTeam(row);
  });
}

/** Throws if what a team refers to does not exist, its name is taken, or the tree would have a circle or be too deep. */
async function assertReferences(tx: Tx, id: string, settings: TeamChanges): Promise<void> {
  const { name, parent_team_id: parentId, policy_id, member_policy_id } = settings;
  const namesake = name === undefined ? undefined : await findTeamByName(tx, name);
  if (namesake && namesake.id !== id) throw teamNameTaken(namesake.name, namesake.id);
  for (const [param, policyId] of Object.entries({ policy_id, member_policy_id })) {
    if (typeof policyId !== 'string' || (await policyExists(tx, policyId))) continue;
    throw new AppError('validation', 'policy_not_found', `There is no policy with this ${param}.`, { param });
  }
  if (typeof parentId === 'string') await assertParent(tx, id, parentId);
}

async function assertParent(tx: Tx, id: string, parentId: string): Promise<void> {
  if (!isId('team', parentId) || !(await findTeam(tx, parentId))) throw parentTeamNotFound();
  const line = await findLine(tx, parentId);
  if (line.some((team) => team.id === id)) throw teamCycle();
  if (line.length + 1 + (await teamDepthBelow(tx, id)) > MAX_TEAM_DEPTH) throw teamTooDeep();
}

export function toTeam(row: TeamRow): Team {
  return {
    id: row.id,
    name: row.name,
    parent_team_id: row.parent_team_id,
    policy_id: row.policy_id,
    member_policy_id: row.member_policy_id,
    frozen: row.frozen_at !== null,
    frozen_at: row.frozen_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
