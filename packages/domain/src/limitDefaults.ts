/** The settings of a further limit that names none of them, as the API has them. */
export const LIMIT_DEFAULTS = {
  models: [] as string[],
  when: {} as Record<string, string>,
  counter_scope: 'principal',
  unknown: 'share',
  window: 'month',
  timezone: 'UTC',
  enforcement: 'enforce',
  thresholds: [] as number[],
  max_counters: 100_000,
  limit_micro_usd: null,
  limit_requests: null,
  limit_tokens: null,
  requests_per_minute: null,
  tokens_per_minute: null,
  max_parallel: null,
  others_limit_micro_usd: null,
} as const;
