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
  set(name: string, value: string): void;
}

/**
 * Sets the rate-limit headers in both vendors' forms (https://platform.openai.com/docs/guides/rate-limits,
 * https://docs.anthropic.com/en/api/rate-limits), on every response.
 */
export function setRateHeaders(headers: Headers, figures: RateFigures, clockMs: number): void {
  const { requestsLimit, requestsLeft, tokensLimit, tokensLeft, resetMs } = figures;
  const seconds = `${Math.ceil(resetMs / 1_000)}s`;
  const instant = instantOf(clockMs + resetMs);
  const set = ({ limit, left, reset }: typeof REQUESTS | typeof TOKENS, most: number, remaining: number) => {
    const [mostText, remainingText] = [String(most), String(remaining)];
    headers.set(limit[0], mostText);
    headers.set(limit[1], mostText);
    headers.set(left[0], remainingText);
    headers.set(left[1], remainingText);
    headers.set(reset[0], seconds);
    headers.set(reset[1], instant);
  };
  if (requestsLimit !== undefined) set(REQUESTS, requestsLimit, requestsLeft);
  if (tokensLimit !== undefined) set(TOKENS, tokensLimit, tokensLeft);
}

let latest = { atMs: Number.NaN, text: '' };

/** Cached, because most requests have the same reset time as the one before. */
function instantOf(atMs: number): string {
  if (atMs !== latest.atMs) latest = { atMs, text: new Date(atMs).toISOString() };
  return latest.text;
}

/** Whether the header is a rate-limit header of either vendor. */
export function isRateHeader(name: string): boolean {
  return name.startsWith('x-ratelimit-') || name.startsWith('anthropic-ratelimit-');
}
