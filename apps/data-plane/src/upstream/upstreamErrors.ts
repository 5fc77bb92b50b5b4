import { AppError } from '@weighbridge/errors';
import { IdentityError } from '@weighbridge/identities';
import type { HttpFailure } from './http1/httpClientError.ts';

/** Ended a request of which no byte can have reached the vendor; `cause` is the reason. */
export class NeverSentError extends Error {
  constructor(cause: unknown) {
    super('the request was not sent', { cause });
  }
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const TIMEOUTS = new Set<string>(['connect_timeout', 'head_timeout', 'body_timeout'] satisfies HttpFailure[]);
const BUSY = 'connector_busy';

export function busyError(provider: string): AppError {
  const message = `The connector to ${provider} already has as many requests in flight as its max_parallel allows. Try again.`;
  return new AppError('unavailable', BUSY, message);
}

/** The connector has as many requests in flight as it allows. */
export function isBusy(error: unknown): boolean {
  return error instanceof AppError && error.code === BUSY;
}

/** There is no access token for the connector; the client is told no reason, which is about the account of the service. */
export function unidentifiedError(cause: unknown, provider: string): AppError {
  const message = `This service has no access token for its account at ${provider}: the identity provider of that account refused it or did not answer. Your own key is fine. The operator of the service was told; until it is mended, use a model of another provider.`;
  const headers = { 'x-should-retry': 'false' };
  return new AppError('upstream', 'connector_unauthorized', message, { cause, headers });
}

/** Why the connector has no access token; undefined if that is not what happened. */
export function identityErrorOf(error: unknown): IdentityError | undefined {
  if (!(error instanceof NeverSentError) || !(error.cause instanceof AppError)) return undefined;
  return error.cause.cause instanceof IdentityError ? error.cause.cause : undefined;
}

/** A redirect is not followed: it would carry the client's prompt, and a credential, to any address the vendor names. */
export function isRedirect({ status }: { readonly status: number }): boolean {
  return REDIRECTS.has(status);
}

export function redirectError(provider: string): AppError {
  const message = `The vendor ${provider} answered with a redirect, which this service does not follow.`;
  return new AppError('upstream', 'upstream_redirect', message);
}

/** No byte of the request can have reached the vendor. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof NeverSentError;
}

export function isTimeout(error: unknown): boolean {
  return TIMEOUTS.has(codeOf(error));
}

/** The error that the client gets for a failure on the way to a vendor or back. */
export function upstreamError(error: unknown, provider: string): AppError {
  if (error instanceof AppError) return error;
  // At shutdown, the reason of the cancellation is itself an error for the client.
  if (error instanceof NeverSentError && error.cause instanceof AppError) return error.cause;
  if (isTimeout(error)) {
    const message = `The vendor ${provider} did not answer in time.`;
    return new AppError('upstream_timeout', 'upstream_timeout', message, { cause: error });
  }
  const what = wasNeverSent(error) ? 'could not be reached' : 'closed the connection early';
  return new AppError('upstream', 'upstream_error', `The vendor ${provider} ${what}.`, { cause: error });
}

function codeOf(error: unknown): string {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown };
  if (typeof code === 'string') return code;
  return cause instanceof Error ? codeOf(cause) : '';
}
