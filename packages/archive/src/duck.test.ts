import fc from 'fast-check';
import { expect, it } from 'vitest';
import { duck } from './duck.ts';
import { Engine } from './engine.ts';

const engine = new Engine({
  memoryBytes: 2 ** 27,
  threads: 1,
  tempDir: '/nonexistent',
  folders: [],
  timeoutMs: 120_000,
});

it('passes any text, name and time to DuckDB as it is', async () => {
  const text = fc.string({ unit: 'grapheme' }).filter((one) => !one.includes('\0'));
  const special = fc.constantFrom("'", "''; DROP TABLE x; --", '\\', '"', '$1', '\n', '%', '');
  const values = fc.record({
    text: fc.oneof(text, special),
    name: fc.oneof(text, special).filter((one) => one !== ''),
    at: fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }),
  });
  await fc.assert(
    fc.asyncProperty(values, async ({ text, name, at }) => {
      const column = duck.column(name);
      const statement = duck`SELECT ${column} = ${text} AND length(${column}) >= 0 AS same, epoch_ms("time") AS ms
        FROM (SELECT ${text} AS ${column}, ${at} AS "time") AS given`;
      expect(await engine.rows(statement, 1)).toEqual([{ same: true, ms: BigInt(at.getTime()) }]);
    }),
    { numRuns: 100 },
  );
  await engine.close();
});

it('joins parts, and refuses what has no exact literal', () => {
  expect(
    duck`(${duck.join(['a', "b'"])}) ${duck.join([duck`x`, duck`y`], duck` AND `)} ${7} ${true}`.text,
  ).toBe("('a', 'b''') x AND y 7 true");
  for (const value of [0.5, Number.NaN, 2 ** 53]) expect(() => duck`${value}`, `${value}`).toThrow('integer');
  expect(() => duck`${'a\0'}`).toThrow('NUL');
});
