import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CALENDAR_UNITS, calendarEdges } from './calendar.ts';

const edges = (unit: 'hour' | 'day' | 'month', zone: string, from: string, to: string) =>
  calendarEdges(unit, zone, new Date(from), new Date(to)).map((edge) => edge.toISOString());

describe('the edges of a calendar', () => {
  it('begin with the unit of the first instant, and end before the last', () => {
    expect(edges('month', 'UTC', '2026-01-31T12:00:00Z', '2026-03-01T00:00:00Z')).toEqual([
      '2026-01-01T00:00:00.000Z',
      '2026-02-01T00:00:00.000Z',
    ]);
    expect(edges('hour', 'Asia/Kolkata', '2026-01-01T00:00:00Z', '2026-01-01T01:00:00Z')).toEqual([
      '2025-12-31T23:30:00.000Z',
      '2026-01-01T00:30:00.000Z',
    ]);
  });

  it('give a day with a clock change 23 or 25 hours', () => {
    expect(edges('day', 'Europe/Berlin', '2026-03-29T10:00:00Z', '2026-03-30T10:00:00Z')).toEqual([
      '2026-03-28T23:00:00.000Z',
      '2026-03-29T22:00:00.000Z',
    ]);
    expect(edges('day', 'Europe/Berlin', '2026-10-25T10:00:00Z', '2026-10-26T10:00:00Z')).toEqual([
      '2026-10-24T22:00:00.000Z',
      '2026-10-25T23:00:00.000Z',
    ]);
    expect(edges('hour', 'Europe/Berlin', '2026-10-25T00:00:00Z', '2026-10-25T03:00:00Z')).toHaveLength(3);
  });

  it('give a day with two midnights, or none, one start', () => {
    // The clock goes back from 01:00 to 00:00 in Havana, and forward from 24:00 to 01:00 in Cairo.
    for (const from of ['2026-11-01T04:00:00Z', '2026-11-01T05:30:00Z', '2026-11-01T12:00:00Z']) {
      expect(edges('day', 'America/Havana', from, '2026-11-02T00:00:00Z')).toEqual([
        '2026-11-01T04:00:00.000Z',
      ]);
    }
    expect(edges('day', 'Africa/Cairo', '2026-04-24T05:00:00Z', '2026-04-24T12:00:00Z')).toEqual([
      '2026-04-23T22:00:00.000Z',
    ]);
    // Samoa skipped 30 December 2011.
    expect(edges('day', 'Pacific/Apia', '2011-12-29T12:00:00Z', '2011-12-31T12:00:00Z')).toEqual([
      '2011-12-29T10:00:00.000Z',
      '2011-12-30T10:00:00.000Z',
      '2011-12-31T10:00:00.000Z',
    ]);
  });

  it('cover any range, ascending, and are the same for a part of it', () => {
    const zones = ['UTC', 'Europe/Berlin', 'America/Havana', 'Australia/Lord_Howe', 'Asia/Kathmandu'];
    const time = fc.date({
      min: new Date('2024-01-01T00:00:00Z'),
      max: new Date('2027-01-01T00:00:00Z'),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(
        fc.constantFrom(...CALENDAR_UNITS),
        fc.constantFrom(...zones),
        time,
        fc.integer({ min: 1, max: 20 }),
        (unit, zone, from, days) => {
          const to = new Date(from.getTime() + days * 86_400_000);
          const all = calendarEdges(unit, zone, from, to).map(Number);
          expect(all[0]).toBeLessThanOrEqual(from.getTime());
          expect(all.at(-1)).toBeLessThan(to.getTime());
          expect(all).toEqual([...new Set(all)].sort((a, b) => a - b));
          if (unit === 'hour') return;
          const middle = new Date((from.getTime() + to.getTime()) / 2);
          const part = calendarEdges(unit, zone, middle, to).map(Number);
          expect(all.slice(-part.length)).toEqual(part);
        },
      ),
      { numRuns: 100 },
    );
  });
});
