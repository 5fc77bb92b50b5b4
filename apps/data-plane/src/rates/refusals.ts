import { AppError } from '@weighbridge/errors';
import type { RateLimitedPolicy } from '../control/keyPolicies.ts';
import type { RateFigures } from './rateCounter.ts';

const MAX_RETRY_AFTER_S = 60;

/** The minute's requests or tokens are used up. */
export function rateLimited(policy: RateLimitedPolicy, figures: RateFigures, tokens: number): AppError {
  const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(figures.resetMs / 1_000)));
  const { tokensPerMinute, requestsPerMinute } = policy;
  if (tokensPerMinute !== undefined && tokens > tokensPerMinute) {
    const message = `This request may take ${tokens} tokens, and the policy of this key allows ${tokensPerMinute} a minute. Send less, or ask for less by max_tokens.`;
    return new AppError('rate_limit', 'rate_limit_exceeded', message, {
      headers: { 'x-should-retry': 'false' },
    });
  }
  const what =
    requestsPerMinute !== undefined && figures.requestsLeft < 1
      ? `${requestsPerMinute} requests`
      : `${tokensPerMinute} tokens`;
  return new AppError(
    'rate_limit',
    'rate_limit_exceeded',
    `The policy of this key allows ${what} a minute, and they are used up. Try again in ${seconds} s.`,
    { headers: { 'retry-after': String(seconds), 'x-should-retry': 'true' } },
  );
}

/** As many requests as the policy allows are under way. */
export function tooManyParallel({ maxParallel }: RateLimitedPolicy): AppError {
  const message = `The policy of this key allows ${maxParallel} requests at once, and as many are under way. Try again.`;
  return new AppError('rate_limit', 'rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'x-should-retry': 'true' },
  });
}
