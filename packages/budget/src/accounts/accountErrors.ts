import { AppError } from '@weighbridge/errors';

const CODE = 'account_limit_exceeded';
const MAX_RETRY_AFTER_S = 60;

/** The account has nothing left of its limits for this request. */
export function accountLimited(provider: string, retryMs: number): AppError {
  const seconds = Math.min(MAX_RETRY_AFTER_S, Math.max(1, Math.ceil(retryMs / 1_000)));
  const message = `The account of this service at ${provider} has reached its limit per minute, which its keys share. Try again in ${seconds} s. The operator can raise the limit of the connector, add another account, or let requests wait by queue_ms of the policy.`;
  return new AppError('rate_limit', CODE, message, {
    headers: { 'retry-after': String(seconds), 'x-should-retry': 'true' },
  });
}

/** As many requests wait at this proxy for its accounts as it can hold. */
export function accountQueueFull(provider: string): AppError {
  const message = `Too many requests wait for the account of this service at ${provider}. Try again.`;
  return new AppError('rate_limit', CODE, message, {
    headers: { 'retry-after': '5', 'x-should-retry': 'true' },
  });
}

/** Whether the request was refused since no account had anything left of its limits. */
export function isAccountLimited(error: unknown): boolean {
  return error instanceof AppError && error.code === CODE;
}
