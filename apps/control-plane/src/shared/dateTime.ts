import { AppError } from '@weighbridge/errors';

/** Reads an RFC 3339 time; what has the form but is no time (a thirteenth month) is a 400 as well. */
export function parseDateTime(param: string, text: string): Date {
  const at = new Date(text);
  if (!Number.isNaN(at.getTime())) return at;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    `${param}: must be a date-time such as 2030-01-31T00:00:00Z.`,
    { param },
  );
}
