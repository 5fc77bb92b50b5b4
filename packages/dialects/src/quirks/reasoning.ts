import { EFFORTS, type Effort, type Reasoning } from '../ir/request.ts';
import type { Losses } from '../loss/losses.ts';
import type { Quirks } from './quirks.ts';

/** What a model that takes numbers is asked for in place of an effort, in tokens. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1_024,
  low: 4_096,
  medium: 10_240,
  high: 24_576,
  xhigh: 32_000,
  max: 64_000,
};

/** What a target is asked for. `effort` or `budget`, or neither: then the model decides. */
export interface ReasoningPlan {
  readonly isOff: boolean;
  readonly effort?: Effort | undefined;
  /** Tokens. */
  readonly budget?: number | undefined;
  readonly isShown: boolean;
}

/** The nearest effort that a model has: not above what was asked, unless it has none below. It is `none` only if that was asked. */
function nearestEffort(asked: Effort, has: readonly Effort[]): Effort | undefined {
  const rank = EFFORTS.indexOf(asked);
  const ranked = EFFORTS.filter((effort) => has.includes(effort) && (effort !== 'none' || asked === 'none'));
  return ranked.findLast((effort) => EFFORTS.indexOf(effort) <= rank) ?? ranked[0];
}

/** The effort of the most tokens that are not above a number, which is greater than 0. */
function effortOfBudget(tokens: number): Effort {
  return EFFORTS.findLast((effort) => effort !== 'none' && BUDGETS[effort] <= tokens) ?? 'minimal';
}

/** How a target is asked to reason; undefined if the request says nothing of it, or the target can't be asked. */
export function planReasoning(
  asked: Reasoning | undefined,
  quirks: Quirks,
  losses: Losses,
): ReasoningPlan | undefined {
  if (!asked) return undefined;
  const { efforts, budget: range } = quirks;
  const isOff = asked.effort?.value === 'none' || asked.budget?.value === 0;
  if (isOff) {
    if (asked.shownPath !== undefined)
      losses.add(asked.shownPath, 'dropped', 'there is no reasoning to show');
    return planOff(asked, quirks, losses);
  }
  if (efforts.length === 0 && !range && !quirks.adaptive) {
    losses.add(asked.path, 'dropped', 'the model does not take it');
    return undefined;
  }
  const { isShown } = asked;
  if (asked.isAdaptive && !asked.effort && !asked.budget) return { isOff: false, isShown };
  // Of a model that takes either, what was asked for is kept.
  const keepsBudget = range !== undefined && asked.budget !== undefined && !asked.effort;
  if (efforts.length > 0 && !keepsBudget) return planEffort(asked, efforts, losses);
  if (range) return planBudget(asked, range, losses);
  const setting = asked.budget ?? asked.effort;
  if (setting) losses.add(setting.path, 'dropped', 'the model decides how much it reasons');
  return { isOff: false, isShown };
}

function planOff(asked: Reasoning, quirks: Quirks, losses: Losses): ReasoningPlan | undefined {
  if (quirks.efforts.includes('none')) return { isOff: true, effort: 'none', isShown: false };
  if (quirks.canTurnOffReasoning) return { isOff: true, budget: 0, isShown: false };
  const effort = nearestEffort('none', quirks.efforts);
  losses.add(asked.path, 'changed', 'the model always reasons');
  return effort && { isOff: false, effort, isShown: asked.isShown };
}

function planEffort(
  { path, effort, budget, isShown }: Reasoning,
  efforts: readonly Effort[],
  losses: Losses,
): ReasoningPlan {
  if (budget && !effort)
    losses.add(budget.path, 'changed', 'the model takes an effort, not a number of tokens');
  else if (budget) losses.add(budget.path, 'dropped', 'the model takes an effort, not a number of tokens');
  const wanted = effort?.value ?? (budget && budget.value > 0 ? effortOfBudget(budget.value) : undefined);
  if (!wanted) return { isOff: false, isShown };
  const nearest = nearestEffort(wanted, efforts);
  if (effort && nearest !== wanted) {
    losses.add(effort.path ?? path, 'changed', `the model's nearest effort is ${nearest}`);
  }
  return { isOff: false, effort: nearest, isShown };
}

function planBudget(
  { effort, budget, isShown }: Reasoning,
  range: NonNullable<Quirks['budget']>,
  losses: Losses,
): ReasoningPlan {
  const isDynamic = budget !== undefined && budget.value < 0;
  if (isDynamic && !effort) return { isOff: false, isShown };
  const wanted = budget && !isDynamic ? budget.value : BUDGETS[effort?.value ?? 'medium'];
  const tokens = Math.min(Math.max(wanted, range.min), range.max);
  if (budget && !isDynamic && tokens !== budget.value) {
    losses.add(budget.path, 'changed', `the model takes ${range.min} to ${range.max} tokens`);
  }
  if (effort && budget && !isDynamic)
    losses.add(effort.path, 'dropped', 'the model takes a number of tokens');
  else if (effort) losses.add(effort.path, 'changed', `the model takes a number of tokens: ${tokens}`);
  return { isOff: false, budget: tokens, isShown };
}
