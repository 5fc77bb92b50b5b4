import { Readable } from 'node:stream';
import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import {
  isSpendPosition,
  type SpendRow as LedgerSpendRow,
  previousRange,
  readPreviousSpend,
  readSpendCompleteness,
  readSpendRows,
  type SpendQuery,
  streamSpendRows,
} from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { page, pageRequest } from '../../shared/paging.ts';
import { invalid, ledgerFilter, withinTimeout } from './ledgerQuery.ts';
import type { SpendReport, SpendRequest, SpendRow, SpendTotal } from './spend.schemas.ts';
import {
  bucketEdges,
  dimensions,
  NO_SPEND,
  presentMeasures,
  presentSpend,
  spendOrder,
  spendRange,
  timezoneOf,
} from './spend.ts';
import { spendCsvHeader, spendCsvRecord } from './spendCsv.ts';
import { readNames } from './spendNames.ts';

export interface SpendDeps {
  readonly db: Database;
  readonly archive?: Archive | undefined;
  readonly now: () => Date;
}

/** A page of spend by group, and by bucket of time if the request names one. */
export async function spendReport(
  deps: SpendDeps,
  caller: Caller,
  request: SpendRequest,
): Promise<SpendReport> {
  const { query, timezone } = spendQuery(deps, caller, request);
  if (request.compare && request.bucket)
    throw invalid('compare', 'compare: not with bucket. Compare each bucket with the one before.');
  // A page token is valid for one grouping and order only.
  const list = JSON.stringify(['spend', request.bucket ?? '', timezone, query.sort ?? '', ...query.groupBy]);
  const wanted = pageRequest(list, request, (parts) => isSpendPosition(query, parts));
  const { asOf, isComplete, mayLackFolded } = await readSpendCompleteness(deps.db, query, deps.archive);
  const lacksOther = mayLackFolded || (request.compare !== undefined && (await lacksBefore(deps, query)));
  // All rows of a limited query are one page: its groups and the others, in each bucket.
  const size =
    query.limit === undefined ? wanted.size : (query.limit + 1) * Math.max(1, query.bucketEdges.length);
  const rows = await withinTimeout(
    readSpendRows(deps.db, query, { after: wanted.after, limit: size + 1 }, deps.archive),
  );
  const present = await presenter(deps, query, rows, request.compare !== undefined);
  const total = wanted.after ? undefined : await readTotal(deps, query, request.compare !== undefined);
  return {
    ...page(list, { ...wanted, size }, rows, (row) => row.position, present),
    ...(total && { total }),
    from: query.filter.from.toISOString(),
    to: query.filter.to.toISOString(),
    timezone,
    bucket_as_of: asOf.toISOString(),
    complete: isComplete && !lacksOther,
    lacks_other: lacksOther,
  };
}

/** Whether usage that the filter may want counts under `(other)` in the range that the query's is compared with. */
async function lacksBefore({ db, archive }: SpendDeps, query: SpendQuery): Promise<boolean> {
  const filter = { ...query.filter, ...previousRange(query.filter) };
  return (await readSpendCompleteness(db, { ...query, filter }, archive)).mayLackFolded;
}

/** Whether all usage that a request wants is known to be in its result. */
export async function isSpendComplete(
  deps: SpendDeps,
  caller: Caller,
  request: SpendRequest,
): Promise<boolean> {
  const { query } = spendQuery(deps, caller, request);
  return (await readSpendCompleteness(deps.db, query, deps.archive)).isComplete;
}

/** Presents rows with their names, and with what they had before if the caller compares. */
async function presenter(
  { db, archive }: SpendDeps,
  query: SpendQuery,
  rows: readonly LedgerSpendRow[],
  compares: boolean,
): Promise<(row: LedgerSpendRow) => SpendRow> {
  const names = await readNames(db, query.groupBy, rows);
  if (!compares) return (row) => presentSpend(query.groupBy, row, names);
  const groups = rows.filter(({ isOthers }) => !isOthers);
  const { sums, others } = await withinTimeout(
    readPreviousSpend(
      db,
      query,
      groups.map(({ group }) => group),
      archive,
    ),
  );
  const previous = new Map(groups.map((row, index) => [row, sums[index]]));
  return (row) => presentSpend(query.groupBy, row, names, row.isOthers ? others : previous.get(row));
}

/** The whole result as one row. */
async function readTotal(
  { db, archive }: SpendDeps,
  { filter }: SpendQuery,
  compares: boolean,
): Promise<SpendTotal> {
  const whole: SpendQuery = { filter, groupBy: [], bucketEdges: [] };
  const [row] = await withinTimeout(readSpendRows(db, whole, { after: undefined, limit: 1 }, archive));
  const before = compares ? await withinTimeout(readPreviousSpend(db, whole, [[]], archive)) : undefined;
  return presentMeasures(row ?? NO_SPEND, before?.sums[0]);
}

/** Exports spend as CSV, without pages. */
export interface SpendExports {
  /** Resolves once the first rows are read. The stream then reads from the database as fast as it is consumed. */
  open(caller: Caller, request: SpendRequest): Promise<Readable>;
  /** As `open`, of other content. */
  stream(content: AsyncGenerator<string | Uint8Array>): Promise<Readable>;
}

/** Each export holds a database connection while it runs; the rest of the pool stays free for other requests. */
const MAX_EXPORTS = 3;
const EXPORT_TIMEOUT_MS = 300_000;

export function createSpendExports(deps: SpendDeps): SpendExports {
  let running = 0;
  return {
    async open(caller, request) {
      if (request.page_size !== undefined || request.page_token !== undefined) {
        throw invalid('page_token', 'page_size and page_token: not supported for CSV, which has no pages.');
      }
      if (request.limit !== undefined || request.compare !== undefined) {
        throw invalid('limit', 'limit and compare: not supported for CSV, which has all rows.');
      }
      const { query } = spendQuery(deps, caller, request);
      return await this.stream(csvLines(deps, query));
    },
    async stream(content) {
      if (running >= MAX_EXPORTS) {
        throw new AppError(
          'unavailable',
          'too_many_exports',
          `${MAX_EXPORTS} exports are already running. Try again later.`,
        );
      }
      running++;
      const end = () => {
        running--;
      };
      // Read the first rows before the response starts: an invalid query still gets an error response.
      const first = await withinTimeout(content.next()).catch((error: unknown) => {
        end();
        throw error;
      });
      const stream = Readable.from(preceded(first, content), { objectMode: false });
      const timer = setTimeout(
        () => stream.destroy(new Error(`the export took longer than ${EXPORT_TIMEOUT_MS / 1_000} s`)),
        EXPORT_TIMEOUT_MS,
      );
      stream.once('close', () => {
        clearTimeout(timer);
        // The generator may be waiting for a query: it releases its connection when the query ends.
        void content
          .return(undefined)
          .catch(() => {})
          .finally(end);
      });
      return stream;
    },
  };
}

async function* csvLines({ db, archive }: SpendDeps, query: SpendQuery): AsyncGenerator<string> {
  let head = spendCsvHeader(query.groupBy);
  for await (const rows of streamSpendRows(db, query, archive)) {
    const names = await readNames(db, query.groupBy, rows);
    yield head + rows.map((row) => spendCsvRecord(query.groupBy, row, names)).join('');
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
    ...spendOrder(request),
  };
  return { query, timezone };
}
