import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { BudgetedPolicy } from '../control/keyPolicies.ts';
import type { BucketFigures } from './lease.ts';

/** Spend plus this request's reservation exceed the limit: a retry helps only in another window. */
export function budgetExhausted(
  policy: BudgetedPolicy,
  { limitNanoUsd, spentNanoUsd }: Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'>,
  showsParentFigures: boolean,
): AppError {
  const reset = policy.windowEndMs === undefined ? null : new Date(policy.windowEndMs).toISOString();
  const when = reset ? `It resets at ${reset}.` : 'It has no reset: ask an operator to raise it.';
  // A parent policy's figures include other principals' spend: only operators see them.
  const mayKnow = policy.isGoverning || showsParentFigures;
  return new AppError(
    'quota',
    'budget_exhausted',
    `What is left of the budget of ${policy.isGoverning ? 'this key' : 'a parent policy'} does not cover this request. ${when}`,
    {
      headers: { 'x-should-retry': 'false' },
      details: mayKnow
        ? {
            policy_id: policy.bucket.policyId,
            limit_micro_usd: limitNanoUsd === undefined ? null : microFromNano(limitNanoUsd),
            spent_micro_usd: microFromNano(spentNanoUsd),
            reset,
          }
        : { reset },
    },
  );
}

/** There is headroom, but running requests hold it. */
export function budgetContended(policy: BudgetedPolicy | undefined): AppError {
  const whose = policy?.isGoverning === false ? 'a parent policy' : 'this key';
  return new AppError(
    'quota',
    'budget_contended',
    `Running requests hold what is left of the budget of ${whose}. Try again in a second.`,
    { headers: { 'x-should-retry': 'true', 'retry-after': '1' } },
  );
}

/** The lease is used up or expired, and the control plane does not respond, or has closed this proxy's epoch. */
export function budgetUnavailable(cause: unknown): AppError {
  const message =
    'The budget of this key cannot be checked right now: this proxy has no lease left, and the control plane is unreachable or grants it none. Try again, through another proxy if there is one.';
  return new AppError('unavailable', 'budget_unavailable', message, { cause });
}
