import { isTimezone, type WindowKind } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { CacheSettings } from '../../shared/schemas.ts';

/** Everything about a policy that an operator sets. */
export interface PolicySettings {
  readonly name: string;
  /** Null: unlimited. */
  readonly limit_micro_usd: number | null;
  readonly window: WindowKind;
  readonly timezone: string;
  readonly counter_scope: 'key' | 'principal' | 'policy';
  readonly enforcement: 'enforce' | 'shadow' | 'off';
  readonly budget_mode: 'balanced' | 'hard';
  readonly allowed_models: string[];
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  readonly max_parallel: number | null;
  readonly parent_policy_id: string | null;
  readonly default_for: 'service' | 'user' | 'all' | null;
  readonly self_service: boolean;
  readonly profile_id: string | null;
  readonly cache: CacheSettings | null;
  /** Percent of the limit. */
  readonly thresholds: number[];
}

export type NewPolicy = Pick<PolicySettings, 'name'> & Partial<PolicySettings>;
export type PolicyChanges = Partial<PolicySettings>;

/** What a policy is where nothing else is said. */
export const POLICY_DEFAULTS: Omit<PolicySettings, 'name'> = {
  limit_micro_usd: null,
  window: 'month',
  timezone: 'UTC',
  counter_scope: 'principal',
  enforcement: 'enforce',
  budget_mode: 'balanced',
  allowed_models: [],
  requests_per_minute: null,
  tokens_per_minute: null,
  max_parallel: null,
  parent_policy_id: null,
  default_for: null,
  self_service: false,
  profile_id: null,
  cache: null,
  thresholds: [],
};

/** How many policies may stand above one another: each is one more counter for every request. */
export const MAX_POLICY_DEPTH = 8;

export function requireTimezone(name: string): string {
  if (isTimezone(name)) return name;
  throw new AppError(
    'validation',
    'timezone_invalid',
    'timezone must be an IANA name such as Europe/Berlin or UTC.',
    { param: 'timezone' },
  );
}

/** In order and once each, so that the same thresholds are always the same. */
export function sortedThresholds(percent: readonly number[]): number[] {
  return [...new Set(percent)].sort((a, b) => a - b);
}

export function policyCycle(): AppError {
  return new AppError(
    'validation',
    'policy_cycle',
    'A policy can not stand above itself: choose another parent_policy_id.',
    {
      param: 'parent_policy_id',
    },
  );
}

export function policyTooDeep(): AppError {
  return new AppError(
    'validation',
    'policy_too_deep',
    `At most ${MAX_POLICY_DEPTH} policies may stand above one another.`,
    { param: 'parent_policy_id' },
  );
}
