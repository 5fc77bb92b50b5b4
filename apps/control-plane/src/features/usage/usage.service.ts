import { microFromNano } from '@weighbridge/domain';
import { overrideKey, readOverrides, readSpend } from '@weighbridge/ledger';
import { type Caller, readsAll } from '../../shared/caller.ts';
import { type EffectiveKey, governedKeyOf } from '../keys/effectiveKey.ts';
import { type KeyDeps, visibleKey } from '../keys/keys.service.ts';
import { limitOf, presentOverride } from '../policies/limitOverride.ts';
import { countersOfKey } from '../policies/policies.service.ts';
import { boundLimitsOf, presentBoundLimit } from './boundLimits.service.ts';
import { headroomOf } from './headroom.ts';
import type { UsageReport } from './usage.schemas.ts';

export async function usageOfKey(deps: KeyDeps, caller: Caller, keyId: string): Promise<UsageReport> {
  return await report(deps, await visibleKey(deps, caller, keyId), readsAll(caller));
}

/** The report for the calling key, or for the principal of the calling token. */
export async function usageOfCaller(deps: KeyDeps, caller: Caller): Promise<UsageReport> {
  return await report(deps, await governedKeyOf(deps.db, caller), readsAll(caller));
}

async function report(deps: KeyDeps, key: EffectiveKey, showsParents: boolean): Promise<UsageReport> {
  const now = deps.now();
  const { governing: policy, counters } = await countersOfKey(deps.db, key, now);
  const [counter] = counters;
  const spend = await readSpend(deps.db, counter.bucket, key.principal_id);
  const overrides = await readOverrides(
    deps.db,
    counters.map(({ bucket }) => bucket),
    now,
  );
  const limits = await boundLimitsOf(deps.db, counters, key, now);
  const headroom = await headroomOf(deps.db, counters, spend.spent, { overrides, limits, showsParents });
  const override = overrides.get(overrideKey(counter.bucket));
  const limitNano = limitOf(policy, override);
  const spent = microFromNano(spend.spent);
  const limit = limitNano === null ? null : microFromNano(limitNano);
  const unbounded = counter.window.end === null;
  const windowStart = unbounded ? policy.counter_since : counter.window.start;
  // Later than the window's start if older rows of the ledger were deleted.
  const principalFrom = new Date(Math.max(windowStart.getTime(), spend.principalSpentFrom.getTime()));
  return {
    policy_id: policy.id,
    // A revoked key names the policy that governed it when it was revoked.
    source: key.revoked_source ?? policy.source,
    active: policy.enforcement === 'enforce',
    counter_scope: policy.counter_scope,
    pooled: policy.counter_scope === 'policy',
    limit_micro_usd: limit,
    override: presentOverride(override),
    window_start: windowStart.toISOString(),
    reset: counter.window.end?.toISOString() ?? null,
    window_unbounded: unbounded,
    bucket_spent_micro_usd: spent,
    bucket_as_of: spend.asOf.toISOString(),
    principal_spent_micro_usd: microFromNano(spend.principalSpent),
    principal_spent_from: principalFrom.toISOString(),
    principal_spent_complete: spend.principalComplete,
    remaining_micro_usd: limit === null ? null : Math.max(0, limit - spent),
    headroom_micro_usd: headroom.microUsd,
    headroom_counter: headroom.counter,
    limits: limits.filter(({ isOwn }) => showsParents || isOwn).map((limit) => presentBoundLimit(limit, now)),
    queried_at: spend.queriedAt.toISOString(),
  };
}
