import type { VendorError } from '../ir/event.ts';
import { parseJson, textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

/** The exceptions of Converse and their statuses, by their names in lower case. */
const STATUSES: Readonly<Record<string, number>> = {
  accessdeniedexception: 403,
  internalserverexception: 500,
  modelerrorexception: 424,
  modelnotreadyexception: 429,
  modelstreamerrorexception: 424,
  modeltimeoutexception: 408,
  resourcenotfoundexception: 404,
  serviceunavailableexception: 503,
  throttlingexception: 429,
  validationexception: 400,
};

export function statusOfException(code: string): number {
  return STATUSES[code.toLowerCase()] ?? 500;
}

/** An error body of Converse: the name of its exception, which AWS has in a header, stands in `__type`. */
export function readConverseError(body: string, status: number): VendorError {
  const value = parseJson(body);
  const { __type: code, message } = isRecord(value) ? value : {};
  return { status, code: textOf(code), message: typeof message === 'string' ? message : body };
}
