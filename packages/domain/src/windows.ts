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

/** A further limit's windows: of a kind, or of a length such as `5h` or `7d`, each from its first use. */
export interface LimitWindow {
  readonly window_kind: WindowKind | 'first_use';
  readonly timezone: string;
  /** Of `first_use` alone. */
  readonly window_every?: string | null;
}

const UNIT_MS = new Map([
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);
const EVERY = /^([1-9]\d{0,3})([mhd])$/;

/** The length of windows that open on first use. Throws for a text that is none. */
export function everyMs(every: string): number {
  const [, count, unit = ''] = EVERY.exec(every) ?? [];
  const unitMs = UNIT_MS.get(unit);
  if (!unitMs) throw new Error(`"${every}" is no length of a window`);
  return Number(count) * unitMs;
}

/** The window of a limit that starts at `start`, or contains it, if it follows the calendar. */
export function windowFrom({ window_kind, timezone, window_every }: LimitWindow, start: Date): Window {
  if (window_kind !== 'first_use') return windowAt(window_kind, timezone, start);
  return { start, end: new Date(start.getTime() + everyMs(window_every ?? '')) };
}
