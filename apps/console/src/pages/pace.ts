import type { components } from '@weighbridge/client';

type Budget = Pick<
  components['schemas']['SummaryBudget'],
  'limit_micro_usd' | 'spent_micro_usd' | 'window_start' | 'reset'
>;

/** What becomes of a budget if spend goes on as in the window so far. */
export type Pace =
  | { readonly kind: 'spent' }
  | { readonly kind: 'ends'; readonly at: string }
  | { readonly kind: 'lasts'; readonly micro: number };

/** Undefined without a reset, or before anything can be said. */
export function atThisPace(budget: Budget, now: Date): Pace | undefined {
  const { limit_micro_usd: limit, spent_micro_usd: spent, reset } = budget;
  if (limit !== null && spent >= limit) return { kind: 'spent' };
  if (reset === null) return undefined;
  const start = Date.parse(budget.window_start);
  const elapsed = now.getTime() - start;
  const whole = Date.parse(reset) - start;
  if (elapsed <= 0 || elapsed > whole) return undefined;
  const micro = Math.round((spent / elapsed) * whole);
  if (limit === null || micro <= limit) return { kind: 'lasts', micro };
  return { kind: 'ends', at: new Date(start + (limit / spent) * elapsed).toISOString() };
}
