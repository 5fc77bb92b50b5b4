import { Readable } from 'node:stream';
import type { Database } from '@weighbridge/database';
import type { CalendarUnit } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  isSpendPosition,
  ledgerAsOf,
  readSpendRows,
  type SpendQuery,
  streamSpendRows,
} from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest } from '../../shared/paging.ts';
import { inTime, invalid, type LedgerFilterValues, ledgerFilter } from './ledgerQuery.ts';
import {
  bucketEdges,
  dimensions,
  type PresentedSpend,
  presentSpend,
  spendRange,
  timezoneOf,
} from './spend.ts';
import { spendCsvHeader, spendCsvRecord } from './spendCsv.ts';

export interface SpendDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface SpendRequest extends LedgerFilterValues {
  readonly from?: string;
  readonly to?: string;
  readonly group_by?: string;
  readonly bucket?: CalendarUnit;
  readonly timezone?: string;
  readonly page_size?: string;
  readonly page_token?: string;
}

export interface SpendReport extends PageOf<PresentedSpend> {
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  readonly bucket_as_of: string;
  readonly complete: boolean;
}

/** Spend by group, and by bucket of time if one is asked for: a page of it. */
export async function spendReport(
  deps: SpendDeps,
  caller: Caller,
  request: SpendRequest,
): Promise<SpendReport> {
  const { query, timezone } = spendQuery(deps, caller, request);
  // A token belongs to one way of grouping.
  const list = JSON.stringify(['spend', request.bucket ?? '', timezone, ...query.groupBy]);
  const wanted = pageRequest(list, request, (parts) => isSpendPosition(query, parts));
  const asOf = await ledgerAsOf(deps.db);
  const rows = await inTime(readSpendRows(deps.db, query, { after: wanted.after, limit: wanted.size + 1 }));
  return {
    ...page(
      list,
      wanted,
      rows,
      (row) => row.position,
      (row) => presentSpend(query.groupBy, row),
    ),
    from: query.filter.from.toISOString(),
    to: query.filter.to.toISOString(),
    timezone,
    bucket_as_of: asOf.toISOString(),
    // What proxies have not handed over yet is not known to be complete.
    complete: false,
  };
}

/** Gives out whole answers as CSV. */
export interface SpendExports {
  /** A stream that reads as fast as it is read; the first rows are there when this resolves. */
  open(caller: Caller, request: SpendRequest): Promise<Readable>;
}

/** Each export holds a connection while it runs: these few leave the others of the pool to everybody else. */
const MAX_EXPORTS = 3;
const EXPORT_TIMEOUT_MS = 300_000;

export function createSpendExports(deps: SpendDeps): SpendExports {
  let running = 0;
  return {
    async open(caller, request) {
      if (request.page_size !== undefined || request.page_token !== undefined) {
        throw invalid('page_token', 'page_size and page_token: CSV comes whole, without pages.');
      }
      const { query } = spendQuery(deps, caller, request);
      if (running >= MAX_EXPORTS) {
        throw new AppError(
          'unavailable',
          'too_many_exports',
          `${MAX_EXPORTS} exports are running: try again soon.`,
        );
      }
      running++;
      const lines = csvLines(deps.db, query);
      const end = () => {
        running--;
      };
      // What is wrong with the query shows at its first rows, while there still is an answer to give.
      const first = await inTime(lines.next()).catch((error: unknown) => {
        end();
        throw error;
      });
      const stream = Readable.from(preceded(first, lines), { objectMode: false });
      const timer = setTimeout(
        () => stream.destroy(new Error('the export took too long')),
        EXPORT_TIMEOUT_MS,
      );
      stream.once('close', () => {
        clearTimeout(timer);
        // The generator may wait in a query: it lets its connection go when that answers.
        void lines
          .return(undefined)
          .catch(() => {})
          .finally(end);
      });
      return stream;
    },
  };
}

async function* csvLines(db: Database, query: SpendQuery): AsyncGenerator<string> {
  let head = spendCsvHeader(query.groupBy);
  for await (const rows of streamSpendRows(db, query)) {
    yield head + rows.map((row) => spendCsvRecord(query.groupBy, row)).join('');
    head = '';
  }
  if (head !== '') yield head;
}

async function* preceded<T>(first: IteratorResult<T>, others: AsyncGenerator<T>): AsyncGenerator<T> {
  if (first.done) return;
  yield first.value;
  yield* others;
}

function spendQuery(
  deps: SpendDeps,
  caller: Caller,
  request: SpendRequest,
): { query: SpendQuery; timezone: string } {
  const timezone = timezoneOf(request.timezone);
  const range = spendRange(request, timezone, deps.now());
  const query = {
    filter: ledgerFilter(caller, request, range),
    groupBy: dimensions(request.group_by),
    bucketEdges: bucketEdges(request.bucket, timezone, range),
  };
  return { query, timezone };
}
