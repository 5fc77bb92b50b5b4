import { AppError } from '@weighbridge/errors';
import type { RateLimitedPolicy } from '../control/keyPolicies.ts';
import type { RateFigures } from './rateCounter.ts';

const MAX_RETRY_AFTER_S = 60;

/** The requests or tokens of the minute are used up. */
export function rateLimited(policy: RateLimitedPolicy, figures: RateFigures, tokens: number): AppError {
  const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(figures.resetMs / 1_000)));
  const { tokensPerMinute, requestsPerMinute } = policy;
  if (tokensPerMinute !== undefined && tokens > tokensPerMinute) {
    const message = `This request may use ${tokens} tokens; a policy that applies to this key allows ${tokensPerMinute} per minute. Shorten the input or lower max_tokens.`;
    return new AppError('rate_limit', 'rate_limit_exceeded', message, {
      headers: { 'x-should-retry': 'false' },
    });
  }
  const limit =
    requestsPerMinute !== undefined && figures.requestsLeft < 1
      ? `${requestsPerMinute} requests`
      : `${tokensPerMinute} tokens`;
  return new AppError(
    'rate_limit',
    'rate_limit_exceeded',
    `A policy that applies to this key allows ${limit} per minute, and they are used up. Try again in ${seconds} s.`,
    { headers: { 'retry-after': String(seconds), 'x-should-retry': 'true' } },
  );
}

/** The policy's maximum of parallel requests is running. */
export function tooManyParallel({ maxParallel }: RateLimitedPolicy): AppError {
  const message = `A policy that applies to this key allows ${maxParallel} parallel requests, and all are running. Try again.`;
  return new AppError('rate_limit', 'rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'x-should-retry': 'true' },
  });
}
