import type { Database, Policies } from '@weighbridge/database';
import { type Insertable, type Selectable, sql } from 'kysely';

export type PolicyRow = Selectable<Policies>;

/** A policy and how it came to govern a key. */
export type GoverningPolicy = PolicyRow & { source: 'key' | 'principal' | 'default' };

export interface GovernedBy {
  readonly policyId: string | null;
  readonly principalId: string;
  readonly kind: 'service' | 'user';
}

/** The key's own policy, else its principal's, else the default for its kind, else the default for all. */
export async function findGoverningPolicy(
  db: Database,
  key: GovernedBy,
): Promise<GoverningPolicy | undefined> {
  const { rows } = await sql<GoverningPolicy>`
    SELECT policies.*, choice.source
    FROM (
      SELECT 1 AS rank, 'key' AS source, ${key.policyId}::text AS id
      UNION ALL SELECT 2, 'principal', policy_id FROM principals WHERE id = ${key.principalId}
      UNION ALL SELECT 3, 'default', id FROM policies WHERE default_for = ${key.kind}
      UNION ALL SELECT 4, 'default', id FROM policies WHERE default_for = 'all'
    ) AS choice
    JOIN policies ON policies.id = choice.id
    ORDER BY choice.rank
    LIMIT 1`.execute(db);
  return rows[0];
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

export async function findPolicy(db: Database, id: string): Promise<PolicyRow | undefined> {
  return await db.selectFrom('policies').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function insertPolicy(db: Database, row: Insertable<Policies>): Promise<PolicyRow> {
  return await db.insertInto('policies').values(row).returningAll().executeTakeFirstOrThrow();
}
