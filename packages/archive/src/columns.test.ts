import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { documentedColumns, nanoFromDecimal } from './columns.ts';

it('has the table of its columns in docs/archive.md', async () => {
  const text = await readFile(new URL('../../../docs/archive.md', import.meta.url), 'utf8');
  const table = text
    .slice(text.indexOf('## The columns'))
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  expect(table).toEqual(documentedColumns());
});

it('reads dollars to the nano-dollar, and refuses what is not exact', () => {
  expect(nanoFromDecimal('0.000000001')).toBe(1n);
  expect(nanoFromDecimal('-9223372036.854775807')).toBe(-9_223_372_036_854_775_807n);
  for (const text of ['1', '1.5', '1e-9', '1.0000000001', '']) {
    expect(() => nanoFromDecimal(text), text).toThrow('nine digits');
  }
});
