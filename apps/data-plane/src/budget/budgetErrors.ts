import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { BudgetedPolicy } from '../control/keyPolicies.ts';
import type { BucketFigures } from './lease.ts';

/** Spend plus this request's reservation exceed the limit: a retry helps only in another window, if at all. */
export function budgetExhausted(
  policy: BudgetedPolicy,
  figures: Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'>,
  estimateNanoUsd: bigint,
  showsParentFigures: boolean,
): AppError {
  const { limitNanoUsd, spentNanoUsd } = figures;
  const reset = policy.windowEndMs === undefined ? null : new Date(policy.windowEndMs).toISOString();
  // A parent policy's figures include other principals' spend: only operators see them.
  const mayKnow = policy.isGoverning || showsParentFigures;
  return new AppError(
    'quota',
    'budget_exhausted',
    exhaustedMessage(policy, mayKnow ? figures : undefined, estimateNanoUsd, reset),
    {
      headers: { 'x-should-retry': 'false' },
      details: {
        estimate_micro_usd: microFromNano(estimateNanoUsd),
        ...(mayKnow && {
          policy_id: policy.bucket.policyId,
          limit_micro_usd: limitNanoUsd === undefined ? null : microFromNano(limitNanoUsd),
          spent_micro_usd: microFromNano(spentNanoUsd),
        }),
        reset,
      },
    },
  );
}

function exhaustedMessage(
  { isGoverning }: BudgetedPolicy,
  figures: Pick<BucketFigures, 'limitNanoUsd' | 'spentNanoUsd'> | undefined,
  estimateNanoUsd: bigint,
  reset: string | null,
): string {
  const { limitNanoUsd, spentNanoUsd = 0n } = figures ?? {};
  const whose = isGoverning ? 'this key' : 'a parent policy';
  const estimate = `${microFromNano(estimateNanoUsd)} micro-USD`;
  if (limitNanoUsd !== undefined && estimateNanoUsd > limitNanoUsd) {
    return `This request may cost ${estimate}, more than the whole budget of ${whose}: waiting does not help. Lower max_tokens (max_output_tokens of responses), send a shorter input, or ask an operator to raise the limit.`;
  }
  const when = reset ? `It resets at ${reset}.` : 'It has no reset: ask an operator to raise it.';
  // With nothing left, a smaller request is refused too.
  const smaller =
    limitNanoUsd !== undefined && spentNanoUsd < limitNanoUsd ? ' A lower max_tokens may fit.' : '';
  return `What is left of the budget of ${whose} does not cover this request, which may cost ${estimate}. ${when}${smaller}`;
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
