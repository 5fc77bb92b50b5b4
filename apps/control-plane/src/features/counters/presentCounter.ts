import { ownerOf } from '@weighbridge/budget';
import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import type { OverrideInForce } from '@weighbridge/ledger';
import type { CounterDefinition } from '../policies/definedCounters.ts';
import { presentOverride } from '../policies/limitOverride.ts';
import type { PolicyCounter } from './counters.schemas.ts';

/** What a counter has used in its current window. */
export interface UsedCounter {
  readonly subject: string;
  readonly spent: NanoUsd;
  readonly leased: NanoUsd;
  readonly lastUsedAt: Date | null;
}

/** Whose key a counter is of. */
export interface CountedKey {
  readonly name: string;
  readonly principal_id: string;
}

export function presentCounter(
  { subject, spent, leased, lastUsedAt }: UsedCounter,
  { amountOf, window }: Pick<CounterDefinition, 'amountOf' | 'window'>,
  override: OverrideInForce | undefined,
  key: CountedKey | undefined,
): PolicyCounter {
  const { counter, keyId, principalId, value, valueSha256 } = ownerOf(subject);
  const amount = amountOf(subject);
  const limit = amount === null ? null : (override?.limit ?? amount);
  const headroom = limit === null ? null : limit - spent - leased;
  return {
    counter,
    principal_id: key?.principal_id ?? principalId,
    key_id: keyId,
    key_name: key?.name ?? null,
    value,
    value_sha256: valueSha256,
    spent_micro_usd: microFromNano(spent),
    leased_micro_usd: microFromNano(leased),
    limit_micro_usd: limit === null ? null : microFromNano(limit),
    headroom_micro_usd: headroom === null ? null : Math.max(0, microFromNano(headroom)),
    override: presentOverride(override),
    last_used_at: lastUsedAt?.toISOString() ?? null,
    reset: window?.end?.toISOString() ?? null,
  };
}
