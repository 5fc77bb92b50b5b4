import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { BudgetedPolicy } from '../control/keyPolicies.ts';
import type { BucketFigures } from './lease.ts';

/** What is spent, and what this request may cost, pass the limit: to try again helps only in another window. */
export function budgetExhausted(
  policy: BudgetedPolicy,
  { limitNanoUsd, spentNanoUsd }: Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'>,
  knowsAll: boolean,
): AppError {
  const reset = policy.windowEndMs === undefined ? null : new Date(policy.windowEndMs).toISOString();
  const when = reset ? `It starts again at ${reset}.` : 'It does not start again by itself.';
  // The figures of a parent policy are other people's: they are for operators.
  const mayKnow = policy.isGoverning || knowsAll;
  return new AppError(
    'quota',
    'budget_exhausted',
    `The budget of ${policy.isGoverning ? 'this key' : 'a parent policy'} does not suffice for this request. ${when}`,
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

/** There is room, but requests under way hold it. */
export function budgetContended(policy: BudgetedPolicy | undefined): AppError {
  const whose = policy?.isGoverning === false ? 'a parent policy' : 'this key';
  return new AppError(
    'quota',
    'budget_contended',
    `What is left of the budget of ${whose} is held by requests that are under way. Try again in a second.`,
    { headers: { 'x-should-retry': 'true', 'retry-after': '1' } },
  );
}

/** The lease is used up, or no longer valid, and nobody is there to give another. */
export function budgetUnavailable(cause: unknown): AppError {
  const message =
    'The budget of this key can not be checked right now: the control plane does not answer, and what was leased of it is used up. Try again.';
  return new AppError('unavailable', 'budget_unavailable', message, { cause });
}
