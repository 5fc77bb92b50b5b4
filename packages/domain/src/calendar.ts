import { DateTime } from 'luxon';

export const CALENDAR_UNITS = ['hour', 'day', 'week', 'month'] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/**
 * The starts of the hours, days, weeks (from Monday) or months that overlap [from, to), in an IANA time zone, ascending; the first is at or
 * before `from`. A day with a clock change has 23 or 25 hours, and one start.
 */
export function calendarEdges(unit: CalendarUnit, timezone: string, from: Date, to: Date): Date[] {
  const end = to.getTime();
  // From the previous unit: a day with two midnights starts at the first.
  let edge = DateTime.fromJSDate(from, { zone: timezone })
    .minus({ [unit]: 1 })
    .startOf(unit);
  if (!edge.isValid) throw new Error(`unknown time zone "${timezone}"`);
  const edges: number[] = [];
  while (edge.toMillis() < end) {
    edges.push(edge.toMillis());
    const next = edge.plus({ [unit]: 1 });
    const start = next.startOf(unit);
    edge = start > edge ? start : next;
  }
  const first = Math.max(
    edges.findLastIndex((ms) => ms <= from.getTime()),
    0,
  );
  return edges.slice(first).map((ms) => new Date(ms));
}
