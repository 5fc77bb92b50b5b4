import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/**
 * Disables the keys in use of a principal that is deactivated, or enables those that were disabled so; returns how many. Locked in
 * the order of ids, as all who lock several keys do.
 */
export async function disableWithPrincipal(
  tx: Tx,
  principalId: string,
  isDisabled: boolean,
  now: Date,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    WITH due AS (
      SELECT id FROM keys
      WHERE principal_id = ${principalId} AND revoked_at IS NULL
        AND (CASE WHEN ${isDisabled} THEN NOT disabled ELSE disabled_with_principal END)
      ORDER BY id FOR NO KEY UPDATE
    ), changed AS (
      UPDATE keys SET disabled = ${isDisabled}, disabled_with_principal = ${isDisabled}, updated_at = ${now}
      FROM due WHERE keys.id = due.id RETURNING keys.id
    )
    SELECT count(*)::integer AS count FROM changed`.execute(tx);
  return rows[0]?.count ?? 0;
}
