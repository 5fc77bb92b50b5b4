import { isUnavailable } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';

/** Turns the error of an unavailable database into one that says so and may be tried again; returns any other as it is. */
export function asUnavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error;
  const message = 'Database unavailable. Before retrying a write, check whether it was applied.';
  return new AppError('unavailable', 'database_unavailable', message, { cause: error });
}
