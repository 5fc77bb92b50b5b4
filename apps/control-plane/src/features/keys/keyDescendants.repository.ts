import { arrayLiteral, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import type { KeyRow } from './keys.repository.ts';

/** The keys that a key issued, that those issued, and so on; revoked ones included, at most `limit`. */
export async function findDescendants(tx: Tx, rootId: string, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    WITH RECURSIVE below AS (
      SELECT id FROM keys WHERE issued_by_key_id = ${rootId}
      UNION
      SELECT keys.id FROM below JOIN keys ON keys.issued_by_key_id = below.id
    )
    SELECT id FROM below LIMIT ${limit}`.execute(tx);
  return rows.map(({ id }) => id);
}

/** Locks keys until the transaction ends, in the order of their ids; returns those in use. */
export async function lockKeysInUse(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string; is_revoked: boolean }>`
    SELECT id, revoked_at IS NOT NULL AS is_revoked FROM keys
    WHERE id = ANY (${arrayLiteral(ids)}::text[])
    ORDER BY id
    FOR NO KEY UPDATE`.execute(tx);
  return rows.flatMap(({ id, is_revoked }) => (is_revoked ? [] : [id]));
}

/** Revokes keys that are in use. Their governing policy is stored with them, as when a single key is revoked. */
export async function revokeKeys(tx: Tx, ids: readonly string[], now: Date): Promise<void> {
  await sql`
    UPDATE keys SET
      disabled = true,
      revoked_at = ${now},
      updated_at = ${now},
      policy_id = coalesce(
        keys.policy_id, principals.policy_id, teams.member_policy_id, teams.policy_id, kind_default.id, any_default.id
      ),
      revoked_source = CASE
        WHEN keys.policy_id IS NOT NULL THEN 'key'
        WHEN principals.policy_id IS NOT NULL THEN 'principal'
        WHEN coalesce(teams.member_policy_id, teams.policy_id) IS NOT NULL THEN 'team'
        ELSE 'default'
      END
    FROM principals LEFT JOIN teams ON teams.id = principals.team_id, unnest(${arrayLiteral(ids)}::text[]) AS wanted (id)
    JOIN keys AS same ON same.id = wanted.id
    LEFT JOIN policies AS kind_default ON kind_default.default_for = same.kind
    LEFT JOIN policies AS any_default ON any_default.default_for = 'all'
    WHERE keys.id = wanted.id AND principals.id = keys.principal_id AND keys.revoked_at IS NULL`.execute(tx);
}

/**
 * How many keys in use may descend from this one without it being known: they were issued after it, and their issuer is not
 * recorded. Only an operator's key could issue keys of other principals.
 */
export async function countUnknownDescendants(tx: Tx, root: KeyRow): Promise<number> {
  const anyPrincipal = root.scopes.includes('operator');
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM keys
    WHERE NOT is_issuer_known AND revoked_at IS NULL AND created_at >= ${root.created_at} AND id <> ${root.id}
      AND (${anyPrincipal} OR principal_id = ${root.principal_id})`.execute(tx);
  return rows[0]?.count ?? 0;
}
