import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { sql } from 'kysely';

/** Any number: what counts is that every control plane uses the same for this. */
const GOVERNANCE_LOCK = 5_213_844_108;

/**
 * An issued key always has a governing policy. Whoever issues or assigns a key holds this lock shared, whoever changes
 * what governs keys (policies, defaults, principals) holds it exclusively: so neither acts on what the other is changing.
 */
export async function lockGovernance(tx: Tx, mode: 'shared' | 'exclusive'): Promise<void> {
  await (mode === 'shared'
    ? sql`SELECT pg_advisory_xact_lock_shared(${GOVERNANCE_LOCK})`
    : sql`SELECT pg_advisory_xact_lock(${GOVERNANCE_LOCK})`
  ).execute(tx);
}

/** Rolls a change back, with 409, that would leave a key without a governing policy. Revoked keys keep what they had. */
export async function requireEveryKeyGoverned(tx: Tx): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    SELECT keys.id
    FROM keys
    JOIN principals ON principals.id = keys.principal_id
    WHERE keys.revoked_at IS NULL AND keys.policy_id IS NULL AND principals.policy_id IS NULL
      AND NOT EXISTS (SELECT FROM policies WHERE default_for IN (keys.kind, 'all'))
    LIMIT 1`.execute(tx);
  if (rows.length === 0) return;
  throw new AppError(
    'conflict',
    'policy_in_use',
    'Keys depend on this policy as their default. Make another policy the default for them first.',
  );
}
