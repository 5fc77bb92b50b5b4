import type { SpendRow } from '@weighbridge/ledger';

export const NO_SUMS = {
  cost: 0n,
  requests: 0,
  attempts: 0,
  failed_attempts: 0,
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
};

/** Adds a row of the ledger to sums. */
export function addSums(sums: typeof NO_SUMS, row: SpendRow): typeof NO_SUMS {
  return {
    cost: sums.cost + row.cost,
    requests: sums.requests + row.requests,
    attempts: sums.attempts + row.attempts,
    failed_attempts: sums.failed_attempts + row.errors,
    input_tokens: sums.input_tokens + row.inputTokens,
    cache_read_tokens: sums.cache_read_tokens + row.cacheReadTokens,
    cache_write_tokens: sums.cache_write_tokens + row.cacheWriteTokens,
    output_tokens: sums.output_tokens + row.outputTokens,
  };
}

/** Whose counter a subject of a bucket names. */
export function ownerOf(subject: string): { principal_id: string | null; key_id: string | null } {
  const [scope, ...rest] = subject.split(':');
  const id = rest.join(':');
  return { principal_id: scope === 'principal' ? id : null, key_id: scope === 'key' ? id : null };
}
