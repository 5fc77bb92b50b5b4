import type { BudgetOverrides, Database, Policies, Tx } from '@weighbridge/database';
import type { OverrideRow } from '@weighbridge/ledger';
import { type Insertable, sql, type Updateable } from 'kysely';
import type { VisibleObjects } from '../../shared/caller.ts';

/** With what it needs of its policy. */
export type ListedOverrideRow = OverrideRow &
  Readonly<{
    policy_name: string;
    policy_scope: Policies['counter_scope'];
    policy_limited: boolean;
    policy_limits: unknown;
    policy_deleted: boolean;
  }>;

export interface OverrideFilter extends VisibleObjects {
  readonly id?: string | undefined;
  readonly policyId?: string | undefined;
  readonly limitId?: string | undefined;
  readonly isActive?: boolean | undefined;
}

const OF_POLICY = sql`split_part(override.policy_id, '.', 1)`;
/** Empty: of the policy itself. */
const OF_LIMIT = sql`split_part(override.policy_id, '.', 2)`;

/** A page of overrides, newest first. */
export async function findOverrides(
  db: Database,
  { principalId, within, id, policyId, limitId, isActive }: OverrideFilter,
  now: Date,
  after: { readonly createdAt: Date; readonly id: string } | undefined,
  limit: number,
): Promise<ListedOverrideRow[]> {
  // When a further limit goes, or counts something else, its overrides end with it.
  const inForce = sql<boolean>`(override.ended_at IS NULL AND override.ends_at > ${now} AND policies.deleted_at IS NULL
    AND (${OF_LIMIT} <> '' OR policies.limit_nano_usd IS NOT NULL
      AND policies.counter_scope = split_part(override.subject, ':', 1)))`;
  let query = db
    .selectFrom('budget_overrides as override')
    .innerJoin('policies', (join) => join.on(sql<boolean>`policies.id = ${OF_POLICY}`))
    .selectAll('override')
    .select(['policies.name as policy_name', 'policies.counter_scope as policy_scope'])
    .select('policies.limits as policy_limits')
    .select(sql<boolean>`policies.limit_nano_usd IS NOT NULL`.as('policy_limited'))
    .select(sql<boolean>`policies.deleted_at IS NOT NULL`.as('policy_deleted'));
  if (id !== undefined) query = query.where('override.id', '=', id);
  if (policyId !== undefined) query = query.where(sql<boolean>`${OF_POLICY} = ${policyId}`);
  if (limitId !== undefined) query = query.where(sql<boolean>`${OF_LIMIT} = ${limitId}`);
  if (principalId !== undefined) query = query.where('override.principal_id', '=', principalId);
  if (within)
    query = query.where(
      sql<boolean>`(override.principal_id = ${within.principalId}
        OR EXISTS (
          SELECT FROM principals
          WHERE principals.id = override.principal_id AND principals.team_id = ANY (${within.teamIds}::text[])
        )
        OR override.subject = 'policy' AND EXISTS (
          SELECT FROM teams WHERE teams.id = ANY (${within.teamIds}::text[])
            AND (teams.policy_id = ${OF_POLICY} OR teams.member_policy_id = ${OF_POLICY})
        ))`,
    );
  if (isActive !== undefined) query = query.where(isActive ? inForce : sql<boolean>`NOT ${inForce}`);
  if (after)
    query = query.where(sql<boolean>`(override.created_at, override.id) < (${after.createdAt}, ${after.id})`);
  return await query
    .orderBy('override.created_at', 'desc')
    .orderBy('override.id', 'desc')
    .limit(limit)
    .execute();
}

/** The override of a counter that is not marked as ended. */
export async function findUnended(
  tx: Tx,
  policyId: string,
  subject: string,
): Promise<{ readonly id: string } | undefined> {
  return await tx
    .selectFrom('budget_overrides')
    .select('id')
    .where('policy_id', '=', policyId)
    .where('subject', '=', subject)
    .where('ended_at', 'is', null)
    .executeTakeFirst();
}

export async function insertOverride(tx: Tx, row: Insertable<BudgetOverrides>): Promise<void> {
  await tx.insertInto('budget_overrides').values(row).execute();
}

export async function updateOverride(
  tx: Tx,
  id: string,
  changes: Updateable<BudgetOverrides>,
): Promise<void> {
  await tx.updateTable('budget_overrides').set(changes).where('id', '=', id).execute();
}

/** Whether any end has come that is not marked. */
export async function isAnyDue(db: Database, now: Date): Promise<boolean> {
  const due = await db
    .selectFrom('budget_overrides')
    .select('id')
    .where('ended_at', 'is', null)
    .where('ends_at', '<=', now)
    .limit(1)
    .executeTakeFirst();
  return due !== undefined;
}
