import { ArchiveUnavailableError, DamagedFileError, StatementTooLargeError } from '@weighbridge/archive';
import { AppError } from '@weighbridge/errors';

/** Turns an error of the ledger's archive into one that says what to do; returns any other as it is. */
export function asArchiveError(error: unknown): unknown {
  if (error instanceof StatementTooLargeError) {
    const message = 'The query reads too much of the archive. Choose a shorter range or add filters.';
    return new AppError('invalid_request', 'query_too_broad', message, { param: 'from', cause: error });
  }
  if (error instanceof ArchiveUnavailableError) {
    const message =
      'The archive of the ledger is unavailable. Try again later, or choose a range of the last days.';
    return new AppError('unavailable', 'ledger_archive_unavailable', message, { cause: error });
  }
  if (error instanceof DamagedFileError) {
    const message =
      'A file of the archive of the ledger is not as it was written. Restore it from a backup, or choose another range.';
    return new AppError('unavailable', 'ledger_archive_damaged', message, { cause: error });
  }
  return error;
}
