import type { VendorError } from '../ir/event.ts';
import { parseJson, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

/** Codes of errors within a stream, and the statuses that they would have had. */
const STATUSES: Readonly<Record<string, number>> = {
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  server_error: 500,
  server_is_overloaded: 503,
  invalid_prompt: 400,
  context_length_exceeded: 400,
  content_filter: 400,
};

export function statusOfCode(code: string): number {
  return Object.hasOwn(STATUSES, code) ? (STATUSES[code] ?? 500) : 500;
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_exceeded',
};

/** `error.type` of OpenAI's errors (https://platform.openai.com/docs/guides/error-codes). */
function openaiErrorType(status: number): string {
  return TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');
}

/** An error body of OpenAI's dialect; some vendors leave out the object around it. */
export function readOpenaiError(body: string, status: number): VendorError {
  const value = parseJson(body);
  const outer = isRecord(value) ? value : {};
  const error = isRecord(outer.error) ? outer.error : outer;
  const code = textOf(error.code) || textOf(error.type);
  const message = textOf(error.message) || textOf(outer.error) || textOf(outer.detail) || body;
  return { status, code, message };
}

/** An error as OpenAI's dialect reports it in a body. */
export function openaiError({ status, message, code }: VendorError): object {
  return { error: { message, type: openaiErrorType(status), param: null, code: code === '' ? null : code } };
}
