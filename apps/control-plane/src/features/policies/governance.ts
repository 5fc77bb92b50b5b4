import { checkAtEnd, isInUnit, type Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { sql } from 'kysely';

/** An arbitrary number, the same in every control plane. */
const GOVERNANCE_LOCK = 5_213_844_108;

/**
 * Protects the invariant that every issued key has a governing policy. A transaction that issues or assigns a key takes
 * the lock shared; one that changes what governs keys (policies, defaults, principals, teams) takes it exclusively. A unit of work
 * has taken it exclusively before its first step.
 */
export async function lockGovernance(tx: Tx, mode: 'shared' | 'exclusive'): Promise<void> {
  if (isInUnit(tx)) return;
  await (mode === 'shared'
    ? sql`SELECT pg_advisory_xact_lock_shared(${GOVERNANCE_LOCK})`
    : sql`SELECT pg_advisory_xact_lock(${GOVERNANCE_LOCK})`
  ).execute(tx);
}

/** Throws a 409 if the transaction leaves a key without a governing policy. Revoked keys keep their last one. */
export async function assertEveryKeyGoverned(tx: Tx): Promise<void> {
  await checkAtEnd(tx, assertNoneUngoverned);
}

async function assertNoneUngoverned(tx: Tx): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    SELECT keys.id
    FROM keys
    JOIN principals ON principals.id = keys.principal_id
    LEFT JOIN teams ON teams.id = principals.team_id
    WHERE keys.revoked_at IS NULL AND keys.policy_id IS NULL AND principals.policy_id IS NULL
      AND teams.member_policy_id IS NULL AND teams.policy_id IS NULL
      AND NOT EXISTS (SELECT FROM policies WHERE default_for = keys.kind)
      -- Known before the first key is read.
      AND NOT EXISTS (SELECT FROM policies WHERE default_for = 'all')
    LIMIT 1`.execute(tx);
  if (rows.length === 0) return;
  throw new AppError(
    'conflict',
    'policy_in_use',
    'Keys depend on this policy as their default. Make another policy the default for them first.',
  );
}
