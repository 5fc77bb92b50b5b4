import type { RateFigures } from './rateCounter.ts';

/** The headers of one kind of limit, in both vendors' forms. */
function namesFor(what: 'requests' | 'tokens') {
  return {
    limit: [`x-ratelimit-limit-${what}`, `anthropic-ratelimit-${what}-limit`],
    left: [`x-ratelimit-remaining-${what}`, `anthropic-ratelimit-${what}-remaining`],
    reset: [`x-ratelimit-reset-${what}`, `anthropic-ratelimit-${what}-reset`],
  } as const;
}

const REQUESTS = namesFor('requests');
const TOKENS = namesFor('tokens');

interface Headers {
  has(name: string): boolean;
  /** One that is not there yet. */
  add(name: string, value: string): void;
  set(name: string, value: string): void;
}

/**
 * Sets the rate-limit headers in both vendors' forms (https://platform.openai.com/docs/guides/rate-limits,
 * https://docs.anthropic.com/en/api/rate-limits), on every response.
 */
export function setRateHeaders(headers: Headers, figures: RateFigures): void {
  const { requestsLimit, requestsLeft, tokensLimit, tokensLeft } = figures;
  if (requestsLimit !== undefined) setLimit(headers, REQUESTS, figures, requestsLimit, requestsLeft);
  if (tokensLimit !== undefined) setLimit(headers, TOKENS, figures, tokensLimit, tokensLeft);
}

function setLimit(
  headers: Headers,
  { limit, left, reset }: typeof REQUESTS | typeof TOKENS,
  { resetMs, resetAt }: RateFigures,
  most: number,
  remaining: number,
): void {
  // Each `set` looks through all headers, and almost every request comes here once.
  const put = headers.has(limit[0]) ? 'set' : 'add';
  const [mostText, remainingText] = [String(most), String(remaining)];
  headers[put](limit[0], mostText);
  headers[put](limit[1], mostText);
  headers[put](left[0], remainingText);
  headers[put](left[1], remainingText);
  headers[put](reset[0], `${Math.ceil(resetMs / 1_000)}s`);
  headers[put](reset[1], resetAt);
}

/** Whether the header is a rate-limit header of either vendor. */
export function isRateHeader(name: string): boolean {
  return name.startsWith('x-ratelimit-') || name.startsWith('anthropic-ratelimit-');
}
