import type { AttemptResult } from '../upstream/connectorHealth.ts';
import { identityErrorOf, isTimeout, wasNeverSent } from '../upstream/upstreamErrors.ts';
import type { RefusedFor } from '../upstream/vendorRefusal.ts';

/** Why another attempt replaces one. */
export type FailureReason =
  | 'credential'
  | 'request_timeout'
  | 'conflict'
  | 'rate_limited'
  | 'server_error'
  | 'unreachable'
  | 'timeout'
  | 'broken';

/** The failures that another account of the same provider is likely to share. */
export const PROVIDER_FAILURES: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'server_error',
  'unreachable',
  'timeout',
  'broken',
]);

/** What the result of an attempt means for its request and for its connector. */
export interface Verdict {
  /** Undefined if the result is final: another attempt would end the same. */
  readonly retry: FailureReason | undefined;
  readonly result: AttemptResult;
}

/** The verdict on a response that refuses no credential. A mistake in the request is one at any account. */
export function verdictOnStatus(status: number): Verdict {
  if (status >= 500) return { retry: 'server_error', result: 'bad' };
  // A redirect may not come from the vendor at all.
  if (status >= 300 && status < 400) return { retry: undefined, result: 'unknown' };
  return OF_STATUS[status] ?? FINAL;
}

const FINAL: Verdict = { retry: undefined, result: 'good' };
/** The verdicts on a response that refuses the credential, or may. */
export const ON_REFUSAL: Readonly<Record<RefusedFor, Verdict>> = {
  credential: { retry: 'credential', result: 'credential_rejected' },
  // Another account may have the right that this one lacks. What it means for the connector, CredentialCheck finds out.
  unclear: { retry: 'credential', result: 'unknown' },
  // The vendor knows the credential, and another account is told the same.
  request: FINAL,
};
/** The vendor refused an access token, and the connector has another one now. */
export const RENEWED: Verdict = { retry: 'credential', result: 'unknown' };
const OF_STATUS: Readonly<Record<number, Verdict>> = {
  // The account has too little money for this request, or for any.
  402: ON_REFUSAL.unclear,
  408: { retry: 'request_timeout', result: 'unknown' },
  // OpenAI sends it for a lock that was not free in time.
  409: { retry: 'conflict', result: 'unknown' },
  429: { retry: 'rate_limited', result: 'bad' },
};

/** The verdict on an attempt without a response. */
export function verdictOnError(error: unknown): Verdict {
  const noToken = identityErrorOf(error);
  if (noToken) return { retry: 'credential', result: noToken.isRefused ? 'credential_rejected' : 'bad' };
  if (wasNeverSent(error)) return { retry: 'unreachable', result: 'bad' };
  return { retry: isTimeout(error) ? 'timeout' : 'broken', result: 'bad' };
}

/** How long a response asks the client to wait, in milliseconds; undefined if it does not say. */
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
