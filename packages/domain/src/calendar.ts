import { DateTime } from 'luxon';

export const CALENDAR_UNITS = ['hour', 'day', 'month'] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/**
 * The first instants of the hours, days or months of an IANA time zone that hold any of [from, to), in order: the first
 * is at or before `from`. Across a change of the clocks a day has 23 or 25 hours, and still begins once.
 */
export function calendarEdges(unit: CalendarUnit, timezone: string, from: Date, to: Date): Date[] {
  const end = to.getTime();
  // From the unit before: a day on which midnight comes twice begins at the first one, seen from either side of it.
  let edge = DateTime.fromJSDate(from, { zone: timezone })
    .minus({ [unit]: 1 })
    .startOf(unit);
  if (!edge.isValid) throw new Error(`no calendar in time zone "${timezone}"`);
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
