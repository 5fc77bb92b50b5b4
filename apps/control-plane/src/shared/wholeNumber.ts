import { AppError } from '@weighbridge/errors';

/** The whole number of a query parameter; throws a 400 unless it is one from `minimum` to `maximum`. */
export function wholeNumber(param: string, text: string, minimum: number, maximum: number): number {
  const value = Number(text);
  if (/^\d{1,16}$/.test(text) && value >= minimum && value <= maximum) return value;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    `${param}: must be a whole number from ${minimum} to ${maximum}.`,
    { param },
  );
}
