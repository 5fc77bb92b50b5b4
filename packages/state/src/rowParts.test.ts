import { create } from '@bufbuild/protobuf';
import { TableRowsSchema } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { RowParts } from './rowParts.ts';
import { rowKey } from './tableRows.ts';

const part = (...ids: string[]) =>
  create(TableRowsSchema, { rows: ids.map((id) => ({ row: { case: 'model' as const, value: { id } } })) });

it('the rows of an update are those of its parts, in order, and of no other update', () => {
  const parts = new RowParts();
  for (const one of [part('a', 'b'), part('c')]) parts.add(one);
  const idsOf = (count: number) => parts.take(count).map(rowKey);
  expect(idsOf(2)).toEqual(['model a', 'model b', 'model c']);
  expect(idsOf(0)).toEqual([]);
  parts.add(part('d'));
  expect(idsOf(1)).toEqual(['model d']);
});

it('an update of which a part is missing is not applied', () => {
  const parts = new RowParts();
  parts.add(part('a'));
  expect(() => parts.take(2)).toThrow('an update has 2 parts, and 1 arrived');
  expect(() => parts.take(0)).toThrow('an update has 0 parts, and 1 arrived');
});

it('an update has a bound', () => {
  const parts = new RowParts();
  for (let n = 0; n < 1_024; n++) parts.add(part());
  expect(() => parts.add(part())).toThrow('more than 1024 parts');
});
