import { AppError } from '@weighbridge/errors';

/**
 * Beyond this, usage could be dated into another month: the ledger may have no partition for it, and usage that it can't
 * record counts against no budget.
 */
const MAX_SKEW_MS = 86_400_000;

/** Why a proxy with this clock must not serve, for the operator; undefined if the clock is fine. */
export function describeClockSkew(aheadMs: number): string | undefined {
  if (Math.abs(aheadMs) <= MAX_SKEW_MS) return undefined;
  const days = Math.round(Math.abs(aheadMs) / MAX_SKEW_MS);
  const direction = aheadMs > 0 ? 'ahead of' : 'behind';
  return `the clock of this host is ${days} day(s) ${direction} the control plane's: correct the wrong one`;
}

/** The client does not see by how much; `problem` goes to the log. */
export function clockSkewError(problem: string): AppError {
  return new AppError(
    'unavailable',
    'clock_is_off',
    'The clock of this proxy is wrong, so it serves no requests. Try again, through another proxy if there is one.',
    {
      cause: new Error(problem),
    },
  );
}
