import { parseRfc3339 } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';

/** Parses an RFC 3339 time; throws a 400 if it is not a valid time. */
export function parseDateTime(param: string, text: string): Date {
  const at = parseRfc3339(text);
  if (at) return at;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    `${param}: must be a date-time such as 2030-01-31T00:00:00Z.`,
    { param },
  );
}
