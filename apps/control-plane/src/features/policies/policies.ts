import { isTimezone } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { PolicySettings } from './policies.schemas.ts';

/** The settings of a new policy that names none of them. */
export const POLICY_DEFAULTS: Omit<PolicySettings, 'name'> = {
  limit_micro_usd: null,
  window: 'month',
  timezone: 'UTC',
  counter_scope: 'principal',
  enforcement: 'enforce',
  budget_mode: 'balanced',
  hard_allow_fields: [],
  allowed_models: [],
  foreign_objects: 'any',
  translation: 'lenient',
  auto_cache: false,
  queue_ms: 0,
  priority: 0,
  attribution_headers: {},
  user_from_body: false,
  requests_per_minute: null,
  tokens_per_minute: null,
  max_parallel: null,
  parent_policy_id: null,
  default_for: null,
  self_service: false,
  profile_id: null,
  on_exhausted: null,
  cache: null,
  thresholds: [],
  limits: [],
};

/** The longest chain of a policy and its parents. Each adds a counter to every request. */
export const MAX_POLICY_DEPTH = 8;

/**
 * How many policies may follow each other when budgets are used up. With the parents of each and the policies of teams, a request
 * then has no more counters than the ledger takes.
 */
export const MAX_REPLACEMENTS = 2;

/** Returns the name of a time zone; throws a 422 if it is not an IANA name. */
export function validTimezone(name: string): string {
  if (isTimezone(name)) return name;
  throw new AppError(
    'validation',
    'timezone_invalid',
    'timezone must be an IANA name such as Europe/Berlin or UTC.',
    { param: 'timezone' },
  );
}

/** In ascending order, without duplicates. */
export function sortedThresholds(percent: readonly number[]): number[] {
  return [...new Set(percent)].sort((a, b) => a - b);
}

export function policyCycle(): AppError {
  return new AppError(
    'validation',
    'policy_cycle',
    'A policy cannot be its own ancestor. Choose another parent_policy_id.',
    { param: 'parent_policy_id' },
  );
}

export function replacementCycle(): AppError {
  return new AppError(
    'validation',
    'policy_cycle',
    'A policy cannot be replaced by itself, nor by one that stands below it or that it replaces. Choose another policy_id in on_exhausted.',
    { param: 'on_exhausted.policy_id' },
  );
}

export function tooManyReplacements(): AppError {
  return new AppError(
    'validation',
    'too_many_replacements',
    `At most ${MAX_REPLACEMENTS} policies may follow each other by on_exhausted. Choose a policy that has none, or take its on_exhausted away.`,
    { param: 'on_exhausted.policy_id' },
  );
}

export function policyTooDeep(): AppError {
  return new AppError(
    'validation',
    'policy_too_deep',
    `A chain of parent policies may have at most ${MAX_POLICY_DEPTH} policies.`,
    { param: 'parent_policy_id' },
  );
}
