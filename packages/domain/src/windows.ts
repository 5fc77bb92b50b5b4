import { DateTime, IANAZone } from 'luxon';

/** The length of a policy's windows. */
export const WINDOW_KINDS = ['hour', 'day', 'week', 'month', 'none'] as const;
export type WindowKind = (typeof WINDOW_KINDS)[number];

export interface Window {
  readonly start: Date;
  /** The start of the next window; null if this one never ends. */
  readonly end: Date | null;
}

/** The only window of the kind `none`. */
const UNBOUNDED: Window = { start: new Date(0), end: null };

/**
 * The calendar window that contains `at`, in an IANA time zone. Weeks start on Monday. A day with a clock change has 23 or
 * 25 hours; a repeated hour is two windows.
 */
export function windowAt(kind: WindowKind, timezone: string, at: Date): Window {
  if (kind === 'none') return UNBOUNDED;
  const local = DateTime.fromJSDate(at, { zone: timezone });
  if (!local.isValid) throw new Error(`unknown time zone "${timezone}"`);
  const start = local.startOf(kind);
  const later = (count: number) => start.plus({ [kind]: count }).startOf(kind);
  const end = later(1);
  // On Lord Howe Island the clocks go back by half an hour: that window has an hour and a half.
  return { start: start.toJSDate(), end: (end > local ? end : later(2)).toJSDate() };
}

export function isTimezone(name: string): boolean {
  return IANAZone.isValidZone(name);
}
