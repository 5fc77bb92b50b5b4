import type { BudgetOverrides, Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, type Selectable, sql } from 'kysely';
import { definitionOf } from './definitionOf.ts';

export type OverrideRow = Selectable<BudgetOverrides>;

/** Names a counter of a policy or a further limit, whatever its window: as in a bucket. */
export interface OverriddenCounter {
  readonly policyId: string;
  readonly subject: string;
}

/** What stands in for a policy's limit on one of its counters. */
export interface OverrideInForce {
  readonly id: string;
  readonly limit: NanoUsd;
  readonly reason: string;
  readonly endsAt: Date;
}

/**
 * The limit of a counter at `now`, in nano-USD: its override's, else its policy's. Null: unlimited, whatever an override says, since
 * proxies ask for no leases then. For a statement that has `policies`.
 */
export function limitAt(subject: RawBuilder<unknown>, now: Date): RawBuilder<bigint | null> {
  return sql<bigint | null>`CASE WHEN policies.limit_nano_usd IS NOT NULL THEN coalesce((
    SELECT override.limit_nano_usd ${inForce(subject, now)}
  ), policies.limit_nano_usd) END`;
}

/** Whether a counter has an override at `now`. For a statement that has `policies`. */
export function isOverridden(subject: RawBuilder<unknown>, now: Date): RawBuilder<boolean> {
  return sql<boolean>`EXISTS (SELECT ${inForce(subject, now)})`;
}

function inForce(subject: RawBuilder<unknown>, now: Date) {
  return sql`
    FROM budget_overrides AS override
    WHERE override.policy_id = policies.id AND override.subject = ${subject}
      AND override.ended_at IS NULL AND override.ends_at > ${now}::timestamptz`;
}

export function overrideKey({ policyId, subject }: OverriddenCounter): string {
  return `${policyId}/${subject}`;
}

/** The overrides that stand in for the limits of these counters at `now`, by `overrideKey`. */
export async function readOverrides(
  db: Database,
  counters: readonly OverriddenCounter[],
  now: Date,
): Promise<ReadonlyMap<string, OverrideInForce>> {
  if (counters.length === 0) return new Map();
  const { rows } = await sql<OverrideRow>`
    SELECT override.*
    FROM budget_overrides AS override
    JOIN (SELECT DISTINCT * FROM unnest(
      ${counters.map(({ policyId }) => policyId)}::text[], ${counters.map(({ subject }) => subject)}::text[]
    ) AS wanted (policy_id, subject)) AS counter USING (policy_id, subject)
    CROSS JOIN LATERAL (${definitionOf(sql.ref('override.policy_id'), sql.ref('override.subject'))}) AS policies
    WHERE policies.limit_nano_usd IS NOT NULL AND override.ended_at IS NULL AND override.ends_at > ${now}`.execute(
    db,
  );
  return new Map(
    rows.map((row) => [
      overrideKey({ policyId: row.policy_id, subject: row.subject }),
      { id: row.id, limit: row.limit_nano_usd, reason: row.reason, endsAt: row.ends_at },
    ]),
  );
}
