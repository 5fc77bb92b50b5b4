import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { EventData } from './describeEvent.ts';

/** Whom an event concerns, by teams. */
export interface EventTeams {
  /** The team, if it is one. */
  readonly team: { readonly id: string; readonly name: string } | undefined;
  /** Its teams, and all above them. */
  readonly teamIds: readonly string[];
}

interface TeamFacts {
  readonly id: string;
  readonly name: string;
  readonly parent_team_id: string | null;
  readonly policy_id: string | null;
  readonly member_policy_id: string | null;
}

const NONE: EventTeams = { team: undefined, teamIds: [] };

/**
 * The teams of events: the team that the principal, or that of the key, is in now; of a counter that all share, each team that the
 * policy is for.
 */
export async function readEventTeams(
  db: Database,
  events: readonly EventData[],
): Promise<(data: EventData) => EventTeams> {
  const ofPrincipals = await teamsOfPrincipals(db, events);
  const teams = await readTeams(db, [...ofPrincipals.values()], textsOf(events, 'policy_id'));
  return (data) => {
    const owner = ownerOf(data);
    const direct = owner
      ? [teams.get(ofPrincipals.get(owner) ?? '')].flatMap((team) => team ?? [])
      : [...teams.values()].filter((team) => isFor(team, data.policy_id));
    const [first, second] = direct;
    if (!first) return NONE;
    const teamIds = [...new Set(direct.flatMap((team) => lineOf(teams, team)))];
    return { team: second ? undefined : { id: first.id, name: first.name }, teamIds };
  };
}

function isFor(team: TeamFacts, policyId: unknown): boolean {
  return typeof policyId === 'string' && [team.policy_id, team.member_policy_id].includes(policyId);
}

/** What names a principal: its id, or a key of it. */
function ownerOf({ principal_id, key_id }: EventData): string | undefined {
  if (typeof principal_id === 'string') return `principal:${principal_id}`;
  return typeof key_id === 'string' ? `key:${key_id}` : undefined;
}

function lineOf(teams: ReadonlyMap<string, TeamFacts>, team: TeamFacts): string[] {
  const line: string[] = [];
  for (let at: TeamFacts | undefined = team; at && !line.includes(at.id); ) {
    line.push(at.id);
    at = at.parent_team_id === null ? undefined : teams.get(at.parent_team_id);
  }
  return line;
}

/** The id of the team by `ownerOf`. */
async function teamsOfPrincipals(
  db: Database,
  events: readonly EventData[],
): Promise<ReadonlyMap<string, string>> {
  const [principals, keys] = [textsOf(events, 'principal_id'), textsOf(events, 'key_id')];
  if (principals.length + keys.length === 0) return new Map();
  const { rows } = await sql<{ owner: string; team_id: string }>`
    SELECT 'principal:' || id AS owner, team_id FROM principals
    WHERE id = ANY (${principals}::text[]) AND team_id IS NOT NULL
    UNION ALL
    SELECT 'key:' || keys.id, team_id FROM keys JOIN principals ON principals.id = keys.principal_id
    WHERE keys.id = ANY (${keys}::text[]) AND team_id IS NOT NULL`.execute(db);
  return new Map(rows.map(({ owner, team_id }) => [owner, team_id]));
}

/** The teams with these ids or policies, and all above them. */
async function readTeams(
  db: Database,
  ids: readonly string[],
  policyIds: readonly string[],
): Promise<ReadonlyMap<string, TeamFacts>> {
  if (ids.length + policyIds.length === 0) return new Map();
  const { rows } = await sql<TeamFacts>`
    WITH RECURSIVE line AS (
      SELECT id, parent_team_id FROM teams
      WHERE deleted_at IS NULL AND (
        id = ANY (${ids}::text[]) OR policy_id = ANY (${policyIds}::text[]) OR member_policy_id = ANY (${policyIds}::text[])
      )
      UNION
      SELECT teams.id, teams.parent_team_id FROM line JOIN teams ON teams.id = line.parent_team_id
    )
    SELECT id, name, parent_team_id, policy_id, member_policy_id FROM teams WHERE id IN (SELECT id FROM line)
    ORDER BY id`.execute(db);
  return new Map(rows.map((row) => [row.id, row]));
}

function textsOf(events: readonly EventData[], field: string): string[] {
  return [...new Set(events.map((data) => data[field]).filter((value) => typeof value === 'string'))];
}
