import { bucketKey } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import { type OverrideInForce, overrideKey, readBucketsSpent } from '@weighbridge/ledger';
import { limitOf } from '../policies/limitOverride.ts';
import type { Counter } from '../policies/policies.service.ts';
import { type BoundLimit, countsAll, remainderOf } from './boundLimits.service.ts';
import type { HeadroomCounter } from './usage.schemas.ts';

export interface Headroom {
  /** Null: no counter can refuse a request. */
  readonly microUsd: number | null;
  readonly counter: HeadroomCounter | null;
}

export interface HeadroomFacts {
  readonly overrides: ReadonlyMap<string, OverrideInForce>;
  readonly limits: readonly BoundLimit[];
  readonly showsParents: boolean;
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
  { overrides, limits, showsParents }: HeadroomFacts,
): Promise<Headroom> {
  const [governing, ...parents] = counters;
  const spentOf = await readBucketsSpent(
    db,
    parents.filter(canRefuse).map(({ bucket }) => bucket),
  );
  const main = counters.flatMap((counter) => {
    const { policy, bucket, window } = counter;
    const limit = limitOf(policy, overrides.get(overrideKey(bucket)));
    if (limit === null || !canRefuse(counter)) return [];
    const isParent = counter !== governing;
    const spent = isParent ? (spentOf.get(bucketKey(bucket)) ?? 0n) : governingSpent;
    const scope = policy.counter_scope;
    const place = { policyId: policy.id, further: undefined, scope, isParent, isOwn: !isParent };
    return [{ ...place, limit, spent, end: window.end }];
  });
  const further = limits.filter(countsAll).flatMap((one) => {
    if (remainderOf(one) === undefined) return [];
    const { counter, limit, isParent, isOwn, amount, used, window } = one;
    const place = {
      policyId: counter.policy.id,
      further: limit,
      scope: limit.counter_scope,
      isParent,
      isOwn,
    };
    return [{ ...place, limit: amount, spent: used.spent, end: window.end }];
  });
  return [...main, ...further].reduce<Headroom>((least, one) => {
    const { isParent } = one;
    const limit = microFromNano(one.limit);
    const spent = microFromNano(one.spent);
    const microUsd = Math.max(0, limit - spent);
    if (least.microUsd !== null && least.microUsd <= microUsd) return least;
    const isShown = one.isOwn || showsParents;
    return {
      microUsd,
      counter: {
        policy_id: isShown ? one.policyId : null,
        is_parent: isParent,
        limit_id: isShown ? (one.further?.id ?? null) : null,
        limit_name: isShown ? (one.further?.name ?? null) : null,
        counter_scope: one.scope,
        limit_micro_usd: isShown ? limit : null,
        spent_micro_usd: isShown ? spent : null,
        reset: one.end?.toISOString() ?? null,
      },
    };
  }, UNLIMITED);
}

function canRefuse({ policy }: Counter): boolean {
  return policy.enforcement === 'enforce' && policy.limit_nano_usd !== null;
}
