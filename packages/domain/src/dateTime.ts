const FORM = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;
const MINUTE_MS = 60_000;
/** RFC 3339 has no later time, and Postgres no earlier year. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Parses a time by the grammar of RFC 3339: with a `T` and an offset. Undefined for anything else, for days and hours that do
 * not exist, and for times outside of the years 1 to 9999 in UTC. Digits below a millisecond are cut; a leap second is the
 * second after it.
 */
export function parseRfc3339(text: string): Date | undefined {
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHours = 0, offsetMinutes = 0] =
    FORM.exec(text) ?? [];
  if (year === undefined || Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return undefined;
  const isLeap = second === '60';
  const local = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${isLeap ? '59' : second}.000Z`);
  // The parser takes 24:00:00, and some engines the 30th of February, for the next day.
  if (Number.isNaN(local) || !new Date(local).toISOString().startsWith(`${year}-${month}-${day}T${hour}`)) {
    return undefined;
  }
  const offsetMs = (Number(offsetHours) * 60 + Number(offsetMinutes)) * MINUTE_MS * (sign === '-' ? -1 : 1);
  const utc = local - offsetMs;
  // Leap seconds are inserted at the end of a day in UTC.
  if (isLeap && !new Date(utc).toISOString().endsWith('T23:59:59.000Z')) return undefined;
  const at = utc + (isLeap ? 1_000 : Number(fraction.slice(0, 3).padEnd(3, '0')));
  return at >= FIRST_MS && at <= LAST_MS ? new Date(at) : undefined;
}
