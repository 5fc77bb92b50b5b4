import type { VendorError } from '../ir/event.ts';
import { parseJson, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

/** `error.status` (https://cloud.google.com/apis/design/errors#error_model). */
const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
  529: 'UNAVAILABLE',
};

/** An error body of Gemini's dialect; in a list, where a stream of JSON was asked for. */
export function readGeminiError(body: string, status: number): VendorError {
  const value = parseJson(body);
  const outer: unknown = Array.isArray(value) ? value[0] : value;
  const error = isRecord(outer) && isRecord(outer.error) ? outer.error : {};
  return { status, code: textOf(error.status), message: textOf(error.message) || body };
}

/** An error as Gemini's dialect reports it, in a body or an event. */
export function geminiError({ status, message }: VendorError): object {
  const word = STATUSES[status] ?? (status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL');
  return { error: { code: status, message, status: word } };
}
