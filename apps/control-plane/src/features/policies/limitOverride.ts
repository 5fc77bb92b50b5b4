import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import type { OverrideInForce } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd } from '../../shared/schemas.ts';

/** An override in force, beside the limit that it replaces. */
export const LimitOverride = Type.Object(
  { id: Type.String(), limit_micro_usd: MicroUsd, reason: Type.String(), ends_at: DateTime },
  {
    title: 'LimitOverride',
    description: 'Stands in for the limit of the policy until ends_at. Null: none does.',
  },
);
export type LimitOverride = Static<typeof LimitOverride>;

export function presentOverride(override: OverrideInForce | undefined): LimitOverride | null {
  if (!override) return null;
  const { id, limit, reason, endsAt } = override;
  return { id, limit_micro_usd: microFromNano(limit), reason, ends_at: endsAt.toISOString() };
}

/** The limit of a counter of a policy. Null: unlimited. */
export function limitOf(
  policy: { readonly limit_nano_usd: NanoUsd | null },
  override: OverrideInForce | undefined,
): NanoUsd | null {
  return override?.limit ?? policy.limit_nano_usd;
}
