import { expect, test } from 'vitest';
import { expectTable } from './table.ts';

const isEven = async (row: number) => expect(row % 2).toBe(0);

test('a table passes if each row does', async () => {
  await expectTable([2, 4], String, isEven);
});

test('a table names all rows that fail, also those that throw at once', async () => {
  await expect(expectTable([1, 2, 3], (row) => `row ${row}`, isEven)).rejects.toThrow(
    /^2 of 3 rows failed\nrow 1: expected 1 to be \+?0.*\nrow 3: expected 1 to be/,
  );
  const thrown = expectTable(['a'], String, () => {
    throw new Error('at once');
  });
  await expect(thrown).rejects.toThrow('1 of 1 rows failed\na: at once');
});

test('a table without rows fails', async () => {
  await expect(expectTable([], String, () => {})).rejects.toThrow('no row');
});
