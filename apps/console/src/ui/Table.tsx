import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Button } from './bits.tsx';
import { Loaded, type Narrower, Note } from './Page.tsx';
import styles from './page.module.css';
import { useSearch } from './search.ts';

export interface Column<T> {
  readonly title: string;
  readonly value: (row: T) => ReactNode;
  /** A figure. */
  readonly end?: boolean;
  /** A long text. */
  readonly wrap?: boolean;
  /** Shown only where there is room. */
  readonly spare?: boolean;
}

/** How a column sorts now, and what changes that. */
interface ColumnSorting {
  readonly direction: 'asc' | 'desc' | false;
  readonly toggle: () => void;
}

export interface TableProps<T> {
  readonly caption: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly rowKey: (row: T) => string;
  readonly empty: ReactNode;
  readonly sorting?: (column: Column<T>) => ColumnSorting | undefined;
}

/** A table of rows; `caption` names it for those who can't see it, `empty` says what to do when there are none. */
export function Table<T>({ caption, rows, columns, rowKey, empty, sorting }: TableProps<T>) {
  if (rows.length === 0) return <Note>{empty}</Note>;
  return (
    // A table that is wider than the window is scrolled by keyboard too.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must take the focus.
    <section className={styles.tableBox} tabIndex={0} aria-label={caption}>
      <table className={styles.table}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.title} column={column} sorting={sorting?.(column)} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td key={column.title} {...marksOf(column)} data-wrap={column.wrap || undefined}>
                  {column.value(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const DIRECTIONS = { asc: 'ascending', desc: 'descending' } as const;

type Marked = Pick<Column<never>, 'title' | 'end' | 'spare'>;

/** What the style sheet knows a column by. */
function marksOf({ title, end, spare }: Marked) {
  return {
    'data-end': end || undefined,
    'data-spare': spare || undefined,
    'data-actions': title === 'Actions' || undefined,
  };
}

function Head({ column, sorting }: { column: Marked; sorting: ColumnSorting | undefined }) {
  const { title } = column;
  if (!sorting) {
    return (
      <th scope="col" {...marksOf(column)}>
        {title}
      </th>
    );
  }
  const { direction, toggle } = sorting;
  return (
    <th scope="col" {...marksOf(column)} aria-sort={direction ? DIRECTIONS[direction] : 'none'}>
      <button type="button" className={styles.sort} onClick={toggle}>
        {title}
        <svg viewBox="0 0 8 12" aria-hidden="true">
          {direction !== 'desc' && <path d="M0 5 4 0l4 5z" />}
          {direction !== 'asc' && <path d="M0 7l4 5 4-5z" />}
        </svg>
      </button>
    </th>
  );
}

/** A list of the API: its rows, and the way to the next page. */
export function List<T>({
  query,
  narrower,
  ...table
}: {
  narrower?: Narrower | undefined;
  query: Pick<
    UseQueryResult<{ readonly data: readonly T[]; readonly next_page_token: string }, unknown>,
    'data' | 'error' | 'refetch'
  >;
} & Omit<TableProps<T>, 'rows'>) {
  return (
    <Loaded query={query} narrower={narrower}>
      {({ data, next_page_token }) => (
        <>
          <Table {...table} rows={data} />
          <Pager next={next_page_token} />
        </>
      )}
    </Loaded>
  );
}

/** Goes on in a list. The page is part of the address; Back returns to the one before. */
export function Pager({ next }: { next: string }) {
  const [search, setSearch] = useSearch();
  if (next === '' && search.page_token === undefined) return null;
  return (
    <nav className={styles.pager} aria-label="Pages of the list">
      <Button disabled={search.page_token === undefined} onClick={() => setSearch({ page_token: undefined })}>
        First page
      </Button>
      <Button disabled={next === ''} onClick={() => setSearch({ page_token: next })}>
        Next page
      </Button>
    </nav>
  );
}
