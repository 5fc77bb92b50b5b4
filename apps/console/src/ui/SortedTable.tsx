import {
  createSortedRowModel,
  type RowData,
  rowSortingFeature,
  type SortingState,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { useMemo, useState } from 'react';
import { type Column, Table, type TableProps } from './Table.tsx';

const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });

/** A column that sorts, by the value that `by` reads. */
export interface SortedColumn<T> extends Column<T> {
  readonly by?: (row: T) => number | string;
  /** How the API names it, if the API sorts. */
  readonly field?: string;
}

const parse = (sort: string): SortingState =>
  sort === '' ? [] : [{ id: sort.replace(/^-/, ''), desc: sort.startsWith('-') }];

/**
 * A table whose columns sort: here, or by `onSort` in the service, where only a page of the rows is known. An order is a field's name;
 * `-` puts the largest first.
 */
export function SortedTable<T extends RowData>({
  columns,
  sort,
  onSort,
  ...rest
}: Omit<TableProps<T>, 'columns'> & {
  columns: readonly SortedColumn<T>[];
  sort: string;
  onSort?: (sort: string) => void;
}) {
  const [own, setOwn] = useState(sort);
  const sorting = useMemo(() => parse(onSort ? sort : own), [onSort, sort, own]);
  const idOf = ({ field, title }: SortedColumn<T>) => field ?? title;
  const table = useTable({
    features,
    data: rest.rows as T[],
    columns: columns.map((column) => ({
      id: idOf(column),
      accessorFn: (row: T) => column.by?.(row) ?? '',
      enableSorting: onSort ? column.field !== undefined : column.by !== undefined,
      sortDescFirst: column.end === true,
      sortFn: sortFn_basic,
    })),
    state: { sorting },
    manualSorting: onSort !== undefined,
    enableSortingRemoval: false,
    onSortingChange: (update) => {
      const [first] = typeof update === 'function' ? update(sorting) : update;
      if (first) (onSort ?? setOwn)(`${first.desc ? '-' : ''}${first.id}`);
    },
  });
  const rows = table.getRowModel().rows.map(({ original }) => original);
  return (
    <Table
      {...rest}
      rows={rows}
      columns={columns}
      sorting={(column) => {
        const of = table.getColumn(idOf(column));
        if (!of?.getCanSort()) return undefined;
        return { direction: of.getIsSorted(), toggle: () => of.toggleSorting() };
      }}
    />
  );
}
