import { type Call, type Change, type CurrentState, changeOf, deletion, idOf } from './changes.ts';
import type { ApplyFile, DesiredResource, Json } from './desiredState.ts';
import { matchesDesired } from './values.ts';

/** The fields of a team in a file that list its people, by what they are there. */
const LISTS = { lead: 'leads', member: 'members' } as const;
type TeamRole = keyof typeof LISTS;
const ROLES = Object.keys(LISTS) as TeamRole[];

/** A team, without its people. Freezing takes a separate call; a file without `frozen` leaves it as it is. */
export function teamChange(settings: Json, frozen: unknown, found: Json | undefined): Change[] {
  const name = String(settings.name);
  const differing = Object.entries(settings).filter(
    ([field, value]) => !found || !matchesDesired(field, value, found[field]),
  );
  const path = `/api/v1/teams/${found ? String(found.id) : idOf('teams', name)}`;
  const isFreezing = frozen !== undefined && frozen !== (found?.frozen ?? false);
  const calls: Call[] = found
    ? differing.length > 0
      ? [{ method: 'PATCH', path, body: Object.fromEntries(differing) }]
      : []
    : [{ method: 'POST', path: '/api/v1/teams', body: settings }];
  if (isFreezing) calls.push({ method: 'POST', path: `${path}/${frozen ? 'freeze' : 'unfreeze'}` });
  if (found && calls[0]) calls[0] = { ...calls[0], expects: found };
  return changeOf('teams', name, { ...settings, ...(isFreezing && { frozen }) }, found, calls);
}

interface Place {
  readonly team: string;
  readonly role: TeamRole;
  readonly desired: DesiredResource;
}

/** Where the file puts each principal. A principal in two places is an error. */
export function placesOf(
  file: ApplyFile,
  addError: (desired: DesiredResource, message: string) => void,
): ReadonlyMap<string, Place> {
  const places = new Map<string, Place>();
  for (const desired of file.teams) {
    const team = String(desired.fields.name).trim();
    for (const role of ROLES) {
      for (const principal of listOf(desired, role) ?? []) {
        const before = places.get(principal);
        if (!before) places.set(principal, { team, role, desired });
        else if (before.team === team) addError(desired, `${team}: ${principal} is named twice`);
        else addError(desired, `${team}: ${principal} is in the team ${before.team} too: name it in one`);
      }
    }
  }
  return places;
}

/**
 * Puts people where the file has them, and takes out of a team those that its list does not name. A list that is left out says
 * nothing of its kind: with `leads` alone, members stay.
 */
export function memberChanges(
  file: ApplyFile,
  current: CurrentState,
  places: ReadonlyMap<string, Place>,
  prunedTeams: readonly Json[],
): { readonly put: Change[]; readonly removed: Change[] } {
  const known = new Map(current.principals.map((principal) => [principal.id, principal]));
  const put = [...places].flatMap(([principal, { team, role }]): Change[] => {
    const found = known.get(principal);
    const isMember = typeof found?.team_name === 'string';
    const call: Call = {
      method: 'PUT',
      path: memberPath(idOfTeam(current, team), principal),
      body: { role },
    };
    const before = isMember ? { team: found.team_name, role: found.team_role } : undefined;
    return changeOf('members', memberName(team, principal), { team, role }, before, [call]);
  });
  const removed = current.principals.flatMap((principal): Change[] => {
    if (principal.team_id == null || places.has(String(principal.id))) return [];
    const isPruned = prunedTeams.some(({ id }) => id === principal.team_id);
    const desired = file.teams.find(({ fields }) => String(fields.name).trim() === principal.team_name);
    if (!isPruned && !(desired && listOf(desired, principal.team_role as TeamRole))) return [];
    const name = memberName(String(principal.team_name), String(principal.id));
    const fields = [{ field: 'role', before: principal.team_role }];
    const path = memberPath(String(principal.team_id), String(principal.id));
    return [deletion('members', name, path, undefined, fields)];
  });
  return { put, removed };
}

/** The team that a change of kind `members` is about. */
export function teamOfMember(file: ApplyFile, name: string): DesiredResource | undefined {
  return file.teams.find((desired) =>
    ROLES.some((role) =>
      listOf(desired, role)?.some(
        (principal) => memberName(String(desired.fields.name).trim(), principal) === name,
      ),
    ),
  );
}

/** Leads and members of a team as a file lists them. */
export function peopleOf({ id }: Json, principals: readonly Json[]): Json {
  const inRole = (role: TeamRole) =>
    principals.filter(({ team_id, team_role }) => team_id === id && team_role === role).map((one) => one.id);
  return { leads: inRole('lead'), members: inRole('member') };
}

function listOf({ fields }: DesiredResource, role: TeamRole): readonly string[] | undefined {
  return fields[LISTS[role]] as readonly string[] | undefined;
}

function memberName(team: string, principal: string): string {
  return `${team} ${principal}`;
}

function memberPath(teamId: string, principal: string): string {
  return `/api/v1/teams/${teamId}/members/${encodeURIComponent(principal)}`;
}

function idOfTeam({ teams }: CurrentState, name: string): string {
  const found = teams.find((team) => team.name === name);
  return found ? String(found.id) : idOf('teams', name);
}
