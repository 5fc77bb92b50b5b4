import { describe, expect, it } from 'vitest';
import { formatFields, formatTable, price, printable, time, usd, usdOfNano } from './output.ts';

describe('formatTable', () => {
  it('makes each column as wide as its widest cell', () => {
    const items = [
      { id: 'a', name: 'checkout', on: true, tags: ['x', 'y'] },
      { id: 'bcd', name: 'größe', on: false, tags: [] },
    ];
    const text = formatTable(items, [
      ['ID', (item) => item.id],
      ['NAME', (item) => item.name],
      ['ON', (item) => item.on],
      ['TAGS', (item) => item.tags],
    ]);
    expect(text).toBe('ID   NAME      ON   TAGS\na    checkout  yes  x, y\nbcd  größe     no   -');
  });

  it('replaces control characters in names', () => {
    const hostile = '\u001b[2Jname\u202e\n\u0007';
    expect(printable(hostile)).toBe('\ufffd[2Jname\ufffd\ufffd\ufffd');
    expect(formatTable([hostile], [['NAME', (name) => name]]).split('\n')).toHaveLength(2);
    expect(formatFields({ detail: { name: hostile } })).not.toContain('\u001b');
  });
});

describe('money', () => {
  it('is shown to the last micro-USD', () => {
    expect([0, 1, 1_230_000, 12_500_000, 999_999, 10 ** 15, -1_500_000].map(usd)).toEqual([
      '$0.00',
      '$0.000001',
      '$1.23',
      '$12.50',
      '$0.999999',
      '$1000000000.00',
      '-$1.50',
    ]);
    expect(usd(null)).toBe('unlimited');
  });

  it('that is exact is shown to the last nano-USD', () => {
    expect(['0', '1', '5250', '-12500000000', '1000000000000000000'].map(usdOfNano)).toEqual([
      '$0.00',
      '$0.000000001',
      '$0.00000525',
      '-$12.50',
      '$1000000000.00',
    ]);
  });

  it('of a price is shown to the last nano-USD', () => {
    expect(price({ units: 0, nanos: 150_000_000 })).toBe('$0.15');
    expect(price({ units: 3, nanos: 1 })).toBe('$3.000000001');
    expect(price({ units: 0, nanos: 0 })).toBe('$0.00');
    expect(price(null)).toBe('-');
  });
});

it('times are shown without fractions of a second', () => {
  expect(time('2026-11-20T10:00:00.123Z')).toBe('2026-11-20T10:00:00Z');
  expect(time(null)).toBe('-');
});
