import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTimezone, type WINDOW_KINDS, windowAt } from './windows.ts';

const edges = (kind: (typeof WINDOW_KINDS)[number], zone: string, at: string) => {
  const { start, end } = windowAt(kind, zone, new Date(at));
  return [start.toISOString(), end?.toISOString() ?? null];
};

describe('windows', () => {
  it('follow the calendar in UTC; weeks start on Monday', () => {
    expect(edges('hour', 'UTC', '2026-11-20T09:46:02Z')).toEqual([
      '2026-11-20T09:00:00.000Z',
      '2026-11-20T10:00:00.000Z',
    ]);
    expect(edges('day', 'UTC', '2028-02-29T23:59:59.999Z')).toEqual([
      '2028-02-29T00:00:00.000Z',
      '2028-03-01T00:00:00.000Z',
    ]);
    expect(edges('week', 'UTC', '2026-11-22T12:00:00Z')).toEqual([
      '2026-11-16T00:00:00.000Z',
      '2026-11-23T00:00:00.000Z',
    ]);
    expect(edges('month', 'UTC', '2026-12-31T23:00:00Z')).toEqual([
      '2026-12-01T00:00:00.000Z',
      '2027-01-01T00:00:00.000Z',
    ]);
  });

  it('follow the clocks of their zone: a day may have 23 or 25 hours', () => {
    expect(edges('day', 'Europe/Berlin', '2026-03-29T12:00:00Z')).toEqual([
      '2026-03-28T23:00:00.000Z',
      '2026-03-29T22:00:00.000Z',
    ]);
    expect(edges('day', 'Europe/Berlin', '2026-10-25T12:00:00Z')).toEqual([
      '2026-10-24T22:00:00.000Z',
      '2026-10-25T23:00:00.000Z',
    ]);
  });

  it('count a repeated hour as two windows', () => {
    expect(edges('hour', 'Europe/Berlin', '2026-10-25T00:30:00Z')).toEqual([
      '2026-10-25T00:00:00.000Z',
      '2026-10-25T01:00:00.000Z',
    ]);
    expect(edges('hour', 'Europe/Berlin', '2026-10-25T01:30:00Z')).toEqual([
      '2026-10-25T01:00:00.000Z',
      '2026-10-25T02:00:00.000Z',
    ]);
  });

  it('have no end for the kind none', () => {
    expect(edges('none', 'UTC', '2026-01-01T00:00:00Z')).toEqual(['1970-01-01T00:00:00.000Z', null]);
  });

  it('last an hour and a half when the clocks go back by half an hour', () => {
    for (const at of ['2032-04-03T14:10:00Z', '2032-04-03T15:00:00Z', '2032-04-03T15:29:59Z'])
      expect(edges('hour', 'Australia/Lord_Howe', at)).toEqual([
        '2032-04-03T14:00:00.000Z',
        '2032-04-03T15:30:00.000Z',
      ]);
  });

  it('contain their instant, and adjoin without gap or overlap, in any zone', () => {
    const zones = fc.constantFrom(
      'UTC',
      'Europe/Berlin',
      'America/New_York',
      'Asia/Kathmandu',
      'Australia/Lord_Howe',
      'America/Havana',
    );
    const kinds = fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const);
    fc.assert(
      fc.property(kinds, zones, fc.integer({ min: 1.6e12, max: 2.2e12 }), (kind, zone, at) => {
        const { start, end } = windowAt(kind, zone, new Date(at));
        if (!end || start.getTime() > at || end.getTime() <= at) return false;
        return windowAt(kind, zone, end).start.getTime() === end.getTime();
      }),
      { numRuns: 2_000 },
    );
  });

  it('accept only known time zones', () => {
    expect(isTimezone('America/Sao_Paulo')).toBe(true);
    expect(isTimezone('Mars/Olympus')).toBe(false);
  });
});
