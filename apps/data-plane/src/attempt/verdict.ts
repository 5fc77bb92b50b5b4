import type { AttemptResult } from '../upstream/health.ts';
import { isTimeout, wasNeverSent } from '../upstream/upstreams.ts';

/** Why an attempt is given up for another. */
export type FailureReason =
  | 'credential'
  | 'request_timeout'
  | 'conflict'
  | 'rate_limited'
  | 'server_error'
  | 'unreachable'
  | 'timeout'
  | 'broken';

/** What the end of an attempt means for its request, and for its connector. */
export interface Verdict {
  /** Undefined where it is final: another attempt would come to the same. */
  readonly retry: FailureReason | undefined;
  readonly result: AttemptResult;
}

/** Of an answer. What is the caller's own mistake is one at any account. */
export function verdictOnStatus(status: number): Verdict {
  if (status >= 500) return { retry: 'server_error', result: 'bad' };
  // Whoever answers so may not be the vendor at all.
  if (status >= 300 && status < 400) return { retry: undefined, result: 'unknown' };
  return OF_STATUS[status] ?? FINAL;
}

const FINAL: Verdict = { retry: undefined, result: 'good' };
const OF_STATUS: Readonly<Record<number, Verdict>> = {
  401: { retry: 'credential', result: 'refused' },
  402: { retry: 'credential', result: 'refused' },
  403: { retry: 'credential', result: 'refused' },
  408: { retry: 'request_timeout', result: 'unknown' },
  // Of OpenAI: a lock that was not free in time.
  409: { retry: 'conflict', result: 'unknown' },
  429: { retry: 'rate_limited', result: 'bad' },
};

/** Of an attempt of which no answer came. */
export function verdictOnError(error: unknown): Verdict {
  if (wasNeverSent(error)) return { retry: 'unreachable', result: 'bad' };
  return { retry: isTimeout(error) ? 'timeout' : 'broken', result: 'bad' };
}

/** How long an answer asks to be waited for, in milliseconds; undefined where it does not say. */
export function retryAfterMs(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  wallMs: number,
): number | undefined {
  const exact = String(headers['retry-after-ms'] ?? '');
  if (NUMBER.test(exact)) return Number(exact);
  const text = String(headers['retry-after'] ?? '');
  if (NUMBER.test(text)) return Number(text) * 1_000;
  const date = text.endsWith(' GMT') ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - wallMs);
}

const NUMBER = /^\d+(\.\d+)?$/;
