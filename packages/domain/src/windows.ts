import { DateTime, IANAZone } from 'luxon';

/** How long a policy's counter runs before it starts again. */
export const WINDOW_KINDS = ['hour', 'day', 'week', 'month', 'none'] as const;
export type WindowKind = (typeof WINDOW_KINDS)[number];

export interface Window {
  readonly start: Date;
  /** The first instant of the next window; null where the window never ends. */
  readonly end: Date | null;
}

/** Window `none` has one window for all time. */
const UNBOUNDED: Window = { start: new Date(0), end: null };

/**
 * The calendar window that holds `at`, in an IANA time zone. Weeks start on Monday. Across a change of the clocks a
 * day has 23 or 25 hours; the hour that happens twice is two windows.
 */
export function windowAt(kind: WindowKind, timezone: string, at: Date): Window {
  if (kind === 'none') return UNBOUNDED;
  const local = DateTime.fromJSDate(at, { zone: timezone });
  if (!local.isValid) throw new Error(`no window in time zone "${timezone}"`);
  const start = local.startOf(kind);
  const later = (count: number) => start.plus({ [kind]: count }).startOf(kind);
  const end = later(1);
  // Where the clocks go back by half an hour, as on Lord Howe Island, that hour lasts for one and a half.
  return { start: start.toJSDate(), end: (end > local ? end : later(2)).toJSDate() };
}

export function isTimezone(name: string): boolean {
  return IANAZone.isValidZone(name);
}
