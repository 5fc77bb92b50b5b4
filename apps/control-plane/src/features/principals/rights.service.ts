import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { Role } from '../../shared/caller.ts';

export { findPrincipal } from './principals.repository.ts';

/** What a principal may do, whatever its credential. */
export interface PrincipalRights {
  readonly role: Role | null;
  readonly deactivatedAt: Date | null;
  readonly team: { readonly id: string; readonly name: string; readonly role: 'member' | 'lead' } | null;
  /** The team that it leads, and all below it. */
  readonly ledTeamIds: readonly string[];
}

/** Undefined if there is no such principal. */
export async function findRights(db: Database, principalId: string): Promise<PrincipalRights | undefined> {
  const { rows } = await sql<{
    role: Role | null;
    deactivated_at: Date | null;
    team_id: string | null;
    team_name: string | null;
    team_role: 'member' | 'lead' | null;
    led: string[];
  }>`
    WITH RECURSIVE led AS (
      SELECT team_id AS id FROM principals WHERE id = ${principalId} AND team_role = 'lead'
      UNION ALL
      SELECT teams.id FROM led JOIN teams ON teams.parent_team_id = led.id WHERE teams.deleted_at IS NULL
    )
    SELECT principals.role, deactivated_at, team_id, teams.name AS team_name, team_role, ARRAY(SELECT id FROM led) AS led
    FROM principals LEFT JOIN teams ON teams.id = principals.team_id
    WHERE principals.id = ${principalId}`.execute(db);
  const [row] = rows;
  if (!row) return undefined;
  const { team_id: id, team_name: name, team_role: role } = row;
  return {
    role: row.role,
    deactivatedAt: row.deactivated_at,
    team: id !== null && name !== null && role !== null ? { id, name, role } : null,
    ledTeamIds: row.led,
  };
}

/** Whether a principal is in one of these teams now. */
export async function isInTeams(
  db: Database,
  principalId: string,
  teamIds: readonly string[],
): Promise<boolean> {
  if (teamIds.length === 0) return false;
  const { rows } = await sql`
    SELECT FROM principals WHERE id = ${principalId} AND team_id = ANY (${teamIds}::text[])`.execute(db);
  return rows.length > 0;
}

export async function isDeactivated(db: Database, principalId: string): Promise<boolean> {
  const row = await db
    .selectFrom('principals')
    .select('deactivated_at')
    .where('id', '=', principalId)
    .executeTakeFirst();
  return row !== undefined && row.deactivated_at !== null;
}
