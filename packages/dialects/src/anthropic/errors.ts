import type { VendorError } from '../ir/event.ts';
import { parseJson } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

/** The types of errors and their statuses (https://docs.anthropic.com/en/api/errors). */
const STATUSES: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

const TYPES = new Map(Object.entries(STATUSES).map(([type, status]) => [status, type]));

export function statusOfType(type: string): number {
  return STATUSES[type] ?? 500;
}

function typeOfStatus(status: number): string {
  const type = TYPES.get(status);
  if (type) return type;
  if (status === 503) return 'overloaded_error';
  return status < 500 ? 'invalid_request_error' : 'api_error';
}

/** An error body of messages. */
export function readMessagesError(body: string, status: number): VendorError {
  const value = parseJson(body);
  const error = isRecord(value) && isRecord(value.error) ? value.error : {};
  const code = typeof error.type === 'string' ? error.type : '';
  return { status, code, message: typeof error.message === 'string' ? error.message : body };
}

/** An error as messages report it, in a body or an event. */
export function messagesError({ status, message }: VendorError): object {
  return { type: 'error', error: { type: typeOfStatus(status), message } };
}
