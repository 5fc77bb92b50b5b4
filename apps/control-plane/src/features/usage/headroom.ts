import { bucketKey } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import { type OverrideInForce, overrideKey, readBucketsSpent } from '@weighbridge/ledger';
import { limitOf } from '../policies/limitOverride.ts';
import type { Counter } from '../policies/policies.service.ts';
import type { HeadroomCounter } from './usage.schemas.ts';

export interface Headroom {
  /** Null: no counter can refuse a request. */
  readonly microUsd: number | null;
  readonly counter: HeadroomCounter | null;
}

const UNLIMITED: Headroom = { microUsd: null, counter: null };

/**
 * The smallest remainder over the counters that can refuse a request; among equals, the nearest to the key. `governingSpent`
 * is what the report shows, so that the two never differ. What proxies hold on leases is not deducted: the key can still
 * spend it. A parent's figures include other principals' spend: as in errors, only operators see them.
 */
export async function headroomOf(
  db: Database,
  counters: readonly [Counter, ...Counter[]],
  governingSpent: NanoUsd,
  overrides: ReadonlyMap<string, OverrideInForce>,
  showsParents: boolean,
): Promise<Headroom> {
  const [governing, ...parents] = counters;
  const spentOf = await readBucketsSpent(
    db,
    parents.filter(canRefuse).map(({ bucket }) => bucket),
  );
  return counters.reduce<Headroom>((least, counter) => {
    const { policy, bucket, window } = counter;
    const limitNano = limitOf(policy, overrides.get(overrideKey(bucket)));
    if (limitNano === null || !canRefuse(counter)) return least;
    const isParent = counter !== governing;
    const limit = microFromNano(limitNano);
    const spent = microFromNano(isParent ? (spentOf.get(bucketKey(bucket)) ?? 0n) : governingSpent);
    const microUsd = Math.max(0, limit - spent);
    if (least.microUsd !== null && least.microUsd <= microUsd) return least;
    const isShown = !isParent || showsParents;
    return {
      microUsd,
      counter: {
        policy_id: isShown ? policy.id : null,
        is_parent: isParent,
        counter_scope: policy.counter_scope,
        limit_micro_usd: isShown ? limit : null,
        spent_micro_usd: isShown ? spent : null,
        reset: window.end?.toISOString() ?? null,
      },
    };
  }, UNLIMITED);
}

function canRefuse({ policy }: Counter): boolean {
  return policy.enforcement === 'enforce' && policy.limit_nano_usd !== null;
}
