import type { AppError } from '@weighbridge/errors';
import { LimitError, type RefusingCounter } from '../limitError.ts';
import { limitFields, nameOfLimit, startOfSentence } from '../limitWords.ts';
import type { RateLimitedPolicy } from '../policies.ts';
import type { RateFigures } from './rateCounter.ts';

const MAX_RETRY_AFTER_S = 60;

/** The requests or tokens of the minute are used up. */
export function rateLimited(policy: RateLimitedPolicy, figures: RateFigures, tokens: number): AppError {
  const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(figures.resetMs / 1_000)));
  const { tokensPerMinute, requestsPerMinute } = policy;
  if (tokensPerMinute !== undefined && tokens > tokensPerMinute) {
    const message = `This request may use ${tokens} tokens; ${whoAllows(policy)} allows ${tokensPerMinute} per minute. Shorten the input or lower max_tokens.`;
    const counter = counterOf(policy, 'tokens_per_minute', tokensPerMinute, tokens);
    return new LimitError(counter, 'rate_limit', 'rate_limit_exceeded', message, {
      headers: { 'x-should-retry': 'false' },
      details: limitFields(policy.limit),
    });
  }
  const isOfRequests = requestsPerMinute !== undefined && figures.requestsLeft < 1;
  const limit = isOfRequests ? `${requestsPerMinute} requests` : `${tokensPerMinute} tokens`;
  return new LimitError(
    isOfRequests
      ? counterOf(policy, 'requests_per_minute', requestsPerMinute)
      : counterOf(policy, 'tokens_per_minute', tokensPerMinute, tokens),
    'rate_limit',
    'rate_limit_exceeded',
    `${startOfSentence(whoAllows(policy))} allows ${limit} per minute, and they are used up. Try again in ${seconds} s.`,
    {
      headers: { 'retry-after': String(seconds), 'x-should-retry': 'true' },
      details: limitFields(policy.limit),
    },
  );
}

/** The policy's maximum of parallel requests is running. */
export function tooManyParallel(policy: RateLimitedPolicy): AppError {
  const { maxParallel } = policy;
  const message = `${startOfSentence(whoAllows(policy))} allows ${maxParallel} parallel requests, and all are running. Try again.`;
  const counter = counterOf(policy, 'max_parallel', maxParallel);
  return new LimitError(counter, 'rate_limit', 'rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'x-should-retry': 'true' },
    details: limitFields(policy.limit),
  });
}

function whoAllows({ limit, subject }: RateLimitedPolicy): string {
  return limit ? nameOfLimit(limit, subject) : 'a policy that applies to this key';
}

function counterOf(
  { policyId, counterVersion, subject, limit: further }: RateLimitedPolicy,
  limits: RefusingCounter['limits'],
  limit: number | undefined,
  wanted?: number,
): RefusingCounter {
  return {
    bucket: { policyId, counterVersion, subject },
    name: further?.name,
    limits,
    limit: limit === undefined ? undefined : BigInt(limit),
    wanted: wanted === undefined ? undefined : BigInt(wanted),
  };
}
