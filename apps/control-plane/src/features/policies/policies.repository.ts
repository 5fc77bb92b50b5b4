import { arrayLiteral, type Database, type Policies, type Tx } from '@weighbridge/database';
import { type Insertable, type RawBuilder, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type PolicyRow = Selectable<Policies>;

/** The policy that governs a key, and which of the key, its principal, the team or the defaults names it. */
export type GoverningPolicy = PolicyRow & { source: 'key' | 'principal' | 'team' | 'default' };

/** A key, principal, team, policy or alias that names a policy. */
export interface PolicyUser {
  readonly kind: 'key' | 'principal' | 'team' | 'policy' | 'alias';
  readonly id: string;
  /** It is named as the one that governs once another budget is used up. */
  readonly replaces: boolean;
}

export interface GovernedBy {
  readonly policyId: string | null;
  readonly principalId: string;
  readonly kind: 'service' | 'user';
}

/**
 * The key's own policy, else its principal's, else that of the team for its members, else the team's own, else the default for
 * its kind, else the default for all. Lists repeat this order in their SQL: `findPolicyOfMembers`, `findKeys` of keys.repository, and
 * keyDescendants.repository.
 */
const CHOSEN = {
  id: sql<
    string | null
  >`coalesce(asked.policy_id, principals.policy_id, teams.member_policy_id, teams.policy_id,
    kind_default.id, any_default.id)`,
  source: sql<GoverningPolicy['source']>`CASE
    WHEN asked.policy_id IS NOT NULL THEN 'key'
    WHEN principals.policy_id IS NOT NULL THEN 'principal'
    WHEN coalesce(teams.member_policy_id, teams.policy_id) IS NOT NULL THEN 'team'
    ELSE 'default' END`,
  from: sql`asked
    LEFT JOIN principals ON principals.id = asked.principal_id
    LEFT JOIN teams ON teams.id = principals.team_id
    LEFT JOIN policies AS kind_default ON kind_default.default_for = asked.kind
    LEFT JOIN policies AS any_default ON any_default.default_for = 'all'`,
};

export async function findGoverningPolicy(
  db: Database,
  { policyId, principalId, kind }: GovernedBy,
): Promise<GoverningPolicy | undefined> {
  const { rows } = await sql<GoverningPolicy>`
    SELECT policies.*, ${CHOSEN.source} AS source
    FROM (SELECT ${policyId}::text AS policy_id, ${principalId}::text AS principal_id, ${kind}::text AS kind) AS
      ${CHOSEN.from} JOIN policies ON policies.id = ${CHOSEN.id}`.execute(db);
  return rows[0];
}

/**
 * An array whose size the planner does not see. Else its plan for the values at hand looks cheaper than one for all values, and it
 * plans a prepared statement each time.
 */
function unsized(literal: string) {
  return sql`(SELECT ${literal}::text[])`;
}

/** Which policies name a key. */
export interface KeyGovernance {
  /** Null: none governs it. */
  readonly governing_id: string | null;
  readonly source: GoverningPolicy['source'];
  /** The team of its principal. */
  readonly team_id: string | null;
  /** That team, or one above it, is frozen. */
  readonly team_frozen: boolean;
  /** Of that team and of each team above, nearest first. */
  readonly team_policy_ids: readonly string[];
}

/**
 * What governs each of these keys, in their order, and the policies that it names, with all that these name: parents, what replaces them
 * when their budget is used up, and so on. Deleted ones too.
 */
export async function findKeyGovernance(
  db: Database,
  keys: readonly GovernedBy[],
): Promise<{ readonly governance: KeyGovernance[]; readonly policies: PolicyRow[] }> {
  const policyIds = arrayLiteral(keys.map(({ policyId }) => policyId));
  const principalIds = arrayLiteral(keys.map(({ principalId }) => principalId));
  const kinds = arrayLiteral(keys.map(({ kind }) => kind));
  const { rows } = await sql<(KeyGovernance & { readonly place: bigint }) | (PolicyRow & { place: null })>`
    WITH RECURSIVE asked AS (
      SELECT * FROM unnest(${unsized(policyIds)}, ${unsized(principalIds)}, ${unsized(kinds)})
        WITH ORDINALITY AS asked (policy_id, principal_id, kind, place)
    ), line AS (
      SELECT asked.place, teams.id, teams.parent_team_id, teams.policy_id, teams.frozen_at, 1 AS level
      FROM asked JOIN principals ON principals.id = asked.principal_id JOIN teams ON teams.id = principals.team_id
      UNION ALL
      SELECT line.place, teams.id, teams.parent_team_id, teams.policy_id, teams.frozen_at, line.level + 1
      FROM line JOIN teams ON teams.id = line.parent_team_id
    ), above AS (
      SELECT place, bool_or(frozen_at IS NOT NULL) AS is_frozen,
        array_agg(policy_id ORDER BY level) FILTER (WHERE policy_id IS NOT NULL) AS policy_ids
      FROM line GROUP BY place
    ), chosen AS (
      SELECT asked.place, ${CHOSEN.id} AS governing_id, ${CHOSEN.source} AS source, teams.id AS team_id,
        coalesce(above.is_frozen, false) AS team_frozen, coalesce(above.policy_ids, '{}') AS team_policy_ids
      FROM ${CHOSEN.from} LEFT JOIN above USING (place)
    ), ${reachedFrom(sql`SELECT governing_id AS id FROM chosen UNION SELECT unnest(team_policy_ids) FROM chosen`)}
    -- Rows of either, side by side.
    SELECT chosen.*, policies.*
    FROM chosen FULL JOIN (SELECT policies.* FROM reached JOIN policies ON policies.id = reached.id) AS policies ON false
    ORDER BY chosen.place`.execute(db);
  return {
    governance: rows.flatMap((row) => (row.place === null ? [] : [row])),
    policies: rows.flatMap((row) => (row.place === null ? [row] : [])),
  };
}

/** Of a WITH RECURSIVE: `reached` has the ids that a query selects, and those of all policies that these name, through any others. */
function reachedFrom(ids: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    reached AS (
      ${ids}
      UNION
      SELECT next.id
      FROM reached
      JOIN policies ON policies.id = reached.id
      CROSS JOIN LATERAL (VALUES (policies.parent_policy_id), (policies.exhausted_policy_id)) AS next (id)
      WHERE next.id IS NOT NULL
    )`;
}

/** The policy that governs the keys of each of these principals, if they have none of their own, by the defaults for users' keys. */
export async function findPolicyOfMembers(
  db: Database,
  principalIds: readonly string[],
): Promise<ReadonlyMap<string, PolicyRow>> {
  if (principalIds.length === 0) return new Map();
  const { rows } = await sql<PolicyRow & { principal_id: string }>`
    SELECT principals.id AS principal_id, policies.*
    FROM principals
    LEFT JOIN teams ON teams.id = principals.team_id
    JOIN policies ON policies.id = coalesce(
      principals.policy_id,
      teams.member_policy_id,
      teams.policy_id,
      (SELECT id FROM policies WHERE default_for = 'user'),
      (SELECT id FROM policies WHERE default_for = 'all')
    )
    WHERE principals.id = ANY (${principalIds}::text[])`.execute(db);
  return new Map(rows.map((row) => [row.principal_id, row]));
}

/** The parents of a policy, nearest first. */
export async function findParents(db: Database, policyId: string): Promise<PolicyRow[]> {
  const { rows } = await sql<PolicyRow>`
    WITH RECURSIVE chain AS (
      SELECT parent_policy_id, 1 AS depth FROM policies WHERE id = ${policyId}
      UNION ALL
      SELECT policies.parent_policy_id, depth + 1 FROM chain JOIN policies ON policies.id = chain.parent_policy_id
    )
    SELECT policies.* FROM chain JOIN policies ON policies.id = chain.parent_policy_id ORDER BY depth`.execute(
    db,
  );
  return rows;
}

/** A policy that is not deleted. */
export async function findPolicy(db: Database, id: string): Promise<PolicyRow | undefined> {
  return await db
    .selectFrom('policies')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

/** Those of some policies that are not deleted. */
export async function findPoliciesById(db: Database, ids: readonly string[]): Promise<PolicyRow[]> {
  return await db
    .selectFrom('policies')
    .selectAll()
    .where('id', 'in', [...ids])
    .where('deleted_at', 'is', null)
    .execute();
}

/** The oldest policy of a name: names may be given twice. */
export async function findPolicyByName(db: Database, name: string): Promise<PolicyRow | undefined> {
  return await db
    .selectFrom('policies')
    .selectAll()
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst();
}

export interface PolicyFilter {
  readonly nameContains?: string | undefined;
  readonly defaultFor?: 'service' | 'user' | 'all' | undefined;
  readonly parentPolicyId?: string | undefined;
  readonly selfService?: boolean | undefined;
}

/** A page of policies, newest first. */
export async function findPolicies(
  db: Database,
  filter: PolicyFilter,
  after: { readonly createdAt: Date; readonly id: string } | undefined,
  limit: number,
): Promise<PolicyRow[]> {
  let query = db.selectFrom('policies').selectAll().where('deleted_at', 'is', null);
  if (filter.nameContains !== undefined) query = query.where(containsText('name', filter.nameContains));
  if (filter.defaultFor !== undefined) query = query.where('default_for', '=', filter.defaultFor);
  if (filter.parentPolicyId !== undefined)
    query = query.where('parent_policy_id', '=', filter.parentPolicyId);
  if (filter.selfService !== undefined) query = query.where('self_service', '=', filter.selfService);
  if (after) query = query.where(sql<boolean>`(created_at, id) < (${after.createdAt}, ${after.id})`);
  return await query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
}

/** Whether a policy is the other one, or names it: as its parent, by on_exhausted, or through policies that do. */
export async function leadsTo(db: Database, id: string, otherId: string): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    WITH RECURSIVE ${reachedFrom(sql`SELECT ${id}::text AS id`)}
    SELECT EXISTS (SELECT FROM reached WHERE id = ${otherId}) AS found`.execute(db);
  return rows[0]?.found ?? false;
}

/** How many policies at most follow each other by on_exhausted, through this one. */
export async function replacementsThrough(db: Database, id: string): Promise<number> {
  const { rows } = await sql<{ length: number }>`
    WITH RECURSIVE after AS (
      SELECT exhausted_policy_id AS id, 1 AS length FROM policies
      WHERE id = ${id} AND exhausted_policy_id IS NOT NULL
      UNION ALL
      SELECT policies.exhausted_policy_id, length + 1 FROM after JOIN policies ON policies.id = after.id
      WHERE policies.exhausted_policy_id IS NOT NULL
    ), before AS (
      SELECT id, 1 AS length FROM policies WHERE exhausted_policy_id = ${id} AND deleted_at IS NULL
      UNION ALL
      SELECT policies.id, length + 1 FROM before JOIN policies ON policies.exhausted_policy_id = before.id
      WHERE policies.deleted_at IS NULL
    )
    SELECT coalesce((SELECT max(length) FROM after), 0) + coalesce((SELECT max(length) FROM before), 0)
      AS length`.execute(db);
  return rows[0]?.length ?? 0;
}

/** The length of the longest chain of policies below this one. */
export async function depthBelow(db: Database, policyId: string): Promise<number> {
  const { rows } = await sql<{ depth: number }>`
    WITH RECURSIVE below AS (
      SELECT id, 0 AS depth FROM policies WHERE id = ${policyId}
      UNION ALL
      SELECT policies.id, depth + 1 FROM below JOIN policies ON policies.parent_policy_id = below.id
    )
    SELECT max(depth) AS depth FROM below`.execute(db);
  return rows[0]?.depth ?? 0;
}

/** A resource that names a policy; undefined if none does. */
export async function findPolicyUser(db: Database, id: string): Promise<PolicyUser | undefined> {
  const { rows } = await sql<PolicyUser>`
    SELECT 'key' AS kind, id, false AS replaces FROM keys WHERE policy_id = ${id} AND revoked_at IS NULL
    UNION ALL SELECT 'principal', id, false FROM principals WHERE policy_id = ${id}
    UNION ALL SELECT 'team', id, false FROM teams
      WHERE (policy_id = ${id} OR member_policy_id = ${id}) AND deleted_at IS NULL
    UNION ALL SELECT 'policy', id, false FROM policies WHERE parent_policy_id = ${id} AND deleted_at IS NULL
    UNION ALL SELECT 'policy', id, true FROM policies WHERE exhausted_policy_id = ${id} AND deleted_at IS NULL
    UNION ALL SELECT 'alias', id, false FROM aliases WHERE policy_id = ${id}
    LIMIT 1`.execute(db);
  return rows[0];
}

export async function insertPolicy(db: Database, row: Insertable<Policies>): Promise<PolicyRow> {
  return await db.insertInto('policies').values(row).returningAll().executeTakeFirstOrThrow();
}

export async function updatePolicy(tx: Tx, id: string, changes: Updateable<Policies>): Promise<PolicyRow> {
  return await tx
    .updateTable('policies')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}
