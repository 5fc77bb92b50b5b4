import type { Database, Principals, Teams, Tx } from '@weighbridge/database';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type TeamRow = Selectable<Teams>;

/** A team that is not deleted. */
export async function findTeam(db: Database, id: string): Promise<TeamRow | undefined> {
  return await db
    .selectFrom('teams')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

export async function findTeamByName(db: Database, name: string): Promise<TeamRow | undefined> {
  return await db
    .selectFrom('teams')
    .selectAll()
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

export interface TeamFilter {
  readonly nameContains?: string | undefined;
  readonly parentTeamId?: string | undefined;
  /** As the team's policy, or as that of its members. */
  readonly policyId?: string | undefined;
  readonly isFrozen?: boolean | undefined;
  /** Only these; undefined: all. */
  readonly ids?: readonly string[] | undefined;
}

/** A page of teams, newest first. */
export async function findTeams(
  db: Database,
  filter: TeamFilter,
  after: { readonly createdAt: Date; readonly id: string } | undefined,
  limit: number,
): Promise<TeamRow[]> {
  const { policyId, isFrozen, ids } = filter;
  let query = db.selectFrom('teams').selectAll().where('deleted_at', 'is', null);
  if (filter.nameContains !== undefined) query = query.where(containsText('name', filter.nameContains));
  if (filter.parentTeamId !== undefined) query = query.where('parent_team_id', '=', filter.parentTeamId);
  if (policyId !== undefined)
    query = query.where((row) =>
      row.or([row('policy_id', '=', policyId), row('member_policy_id', '=', policyId)]),
    );
  if (isFrozen !== undefined) query = query.where('frozen_at', isFrozen ? 'is not' : 'is', null);
  if (ids !== undefined) query = query.where(sql<boolean>`id = ANY (${ids}::text[])`);
  if (after) query = query.where(sql<boolean>`(created_at, id) < (${after.createdAt}, ${after.id})`);
  return await query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}

/** A team and those above it, the nearest first. */
export async function findLine(db: Database, id: string): Promise<TeamRow[]> {
  const { rows } = await sql<TeamRow>`
    WITH RECURSIVE line AS (
      SELECT id, parent_team_id, 0 AS level FROM teams WHERE id = ${id}
      UNION ALL
      SELECT teams.id, teams.parent_team_id, level + 1 FROM line JOIN teams ON teams.id = line.parent_team_id
    )
    SELECT teams.* FROM line JOIN teams USING (id) ORDER BY level`.execute(db);
  return rows;
}

/** How many levels of teams are below this one. */
export async function teamDepthBelow(db: Database, id: string): Promise<number> {
  const { rows } = await sql<{ depth: number }>`
    WITH RECURSIVE below AS (
      SELECT id, 0 AS depth FROM teams WHERE id = ${id}
      UNION ALL
      SELECT teams.id, depth + 1 FROM below JOIN teams ON teams.parent_team_id = below.id WHERE teams.deleted_at IS NULL
    )
    SELECT max(depth) AS depth FROM below`.execute(db);
  return rows[0]?.depth ?? 0;
}

export async function insertTeam(tx: Tx, row: Insertable<Teams>): Promise<TeamRow> {
  return await tx.insertInto('teams').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updateTeam(tx: Tx, id: string, changes: Updateable<Teams>): Promise<TeamRow> {
  return await tx
    .updateTable('teams')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** What keeps a team from being deleted: `members` or `teams below it`. */
export async function findTeamUse(tx: Tx, id: string): Promise<string | undefined> {
  const { rows } = await sql<{ what: string }>`
    SELECT 'members' AS what FROM principals WHERE team_id = ${id}
    UNION ALL SELECT 'teams below it' FROM teams WHERE parent_team_id = ${id} AND deleted_at IS NULL
    LIMIT 1`.execute(tx);
  return rows[0]?.what;
}

export type MemberRow = Selectable<Principals>;

export async function countMembers(db: Database, teamId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM principals WHERE team_id = ${teamId}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** The members of a team by their ids; with `principalId`, only that one. */
export async function findMembers(
  db: Database,
  teamId: string,
  principalId: string | undefined,
  limit: number,
): Promise<MemberRow[]> {
  let query = db.selectFrom('principals').selectAll().where('team_id', '=', teamId);
  if (principalId !== undefined) query = query.where('id', '=', principalId);
  return await query.orderBy('id').limit(limit).execute();
}

/** The ids of the policies of teams, and of their members. */
export async function findPoliciesOfTeams(db: Database, teamIds: readonly string[]): Promise<string[]> {
  if (teamIds.length === 0) return [];
  const { rows } = await sql<{ id: string }>`
    SELECT policy_id AS id FROM teams WHERE id = ANY (${teamIds}::text[]) AND policy_id IS NOT NULL
    UNION SELECT member_policy_id FROM teams WHERE id = ANY (${teamIds}::text[]) AND member_policy_id IS NOT NULL`.execute(
    db,
  );
  return rows.map(({ id }) => id);
}

/** Whether a policy is that of one of these teams, or of its members. */
export async function isPolicyOfTeams(
  db: Database,
  policyId: string,
  teamIds: readonly string[],
): Promise<boolean> {
  if (teamIds.length === 0) return false;
  const { rows } = await sql`
    SELECT FROM teams
    WHERE id = ANY (${teamIds}::text[]) AND (policy_id = ${policyId} OR member_policy_id = ${policyId})
    LIMIT 1`.execute(db);
  return rows.length > 0;
}
