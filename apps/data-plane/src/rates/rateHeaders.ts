import type { ServerResponse } from 'node:http';
import type { RateFigures } from './rateCounter.ts';

/**
 * Tells the caller of the limits in both vendors' forms (https://platform.openai.com/docs/guides/rate-limits,
 * https://docs.anthropic.com/en/api/rate-limits), whatever becomes of its request.
 */
export function setRateHeaders(response: ServerResponse, figures: RateFigures, clockMs: number): void {
  const { requestsLimit, requestsLeft, tokensLimit, tokensLeft, resetMs } = figures;
  const seconds = `${Math.ceil(resetMs / 1_000)}s`;
  const reset = new Date(clockMs + resetMs).toISOString();
  const set = (what: 'requests' | 'tokens', limit: number, left: number) => {
    response.setHeader(`x-ratelimit-limit-${what}`, limit);
    response.setHeader(`x-ratelimit-remaining-${what}`, left);
    response.setHeader(`x-ratelimit-reset-${what}`, seconds);
    response.setHeader(`anthropic-ratelimit-${what}-limit`, limit);
    response.setHeader(`anthropic-ratelimit-${what}-remaining`, left);
    response.setHeader(`anthropic-ratelimit-${what}-reset`, reset);
  };
  if (requestsLimit !== undefined) set('requests', requestsLimit, requestsLeft);
  if (tokensLimit !== undefined) set('tokens', tokensLimit, tokensLeft);
}

/** The caller was told of limits of its own. */
export function hasRateHeaders(response: ServerResponse): boolean {
  return response.getHeaderNames().some(isRateHeader);
}

/** Of a limit by the minute, in either vendor's form. */
export function isRateHeader(name: string): boolean {
  return name.startsWith('x-ratelimit-') || name.startsWith('anthropic-ratelimit-');
}
