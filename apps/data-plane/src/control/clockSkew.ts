import { AppError } from '@weighbridge/errors';

/**
 * Beyond it, what is spent could not be told from what came in another month: the ledger may have no place for events of
 * that time, and what it can not record counts against no budget.
 */
const MAX_MS = 86_400_000;

/** Why a proxy must not serve by its clock, in words for an operator; undefined as a rule. */
export function describeClockSkew(aheadMs: number): string | undefined {
  if (Math.abs(aheadMs) <= MAX_MS) return undefined;
  const days = Math.round(Math.abs(aheadMs) / MAX_MS);
  const direction = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of this host is ${days} day(s) ${direction} the one of its control plane: set the one that is wrong`;
}

/** What callers are told: nothing is spent that could not be charged. */
export function clockSkewError(fault: string): AppError {
  return new AppError('unavailable', 'clock_is_off', 'This proxy can not serve right now. Try again.', {
    cause: new Error(fault),
  });
}
