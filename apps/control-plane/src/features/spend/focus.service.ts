import type { Database } from '@weighbridge/database';
import { readCompleteness, type SpendQuery, streamSpendRows } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import type { FocusRequest } from './focus.schemas.ts';
import { FOCUS_DIMENSIONS, focusHeader, focusRecord } from './focusCsv.ts';
import { checkedRange, instant, invalid, ledgerFilter, type Range } from './ledgerQuery.ts';
import type { SpendDeps } from './spend.service.ts';
import { readNames } from './spendNames.ts';

const DAY_MS = 86_400_000;
const MAX_DAYS = 31;

export interface FocusExport {
  readonly lines: AsyncGenerator<string>;
  /** Whether all usage of the range is known to be in it. */
  readonly isComplete: boolean;
  /** Of the file. */
  readonly name: string;
}

/** The spend of whole days as a FOCUS dataset. */
export async function focusExport(
  deps: SpendDeps,
  caller: Caller,
  request: FocusRequest,
): Promise<FocusExport> {
  const range = dayRange(request, deps.now());
  const query: SpendQuery = {
    filter: ledgerFilter(caller, request, range),
    groupBy: FOCUS_DIMENSIONS,
    bucketEdges: [],
  };
  const { isComplete } = await readCompleteness(deps.db, query);
  const days = [range.from, ...(range.to.getTime() - range.from.getTime() > DAY_MS ? [lastDay(range)] : [])];
  const name = `focus-${days.map((day) => day.toISOString().slice(0, 10)).join('-to-')}.csv`;
  return { lines: focusLines(deps.db, query), isComplete, name };
}

function dayRange(request: FocusRequest, now: Date): Range {
  const to = instant('to', request.to) ?? new Date(Math.floor(now.getTime() / DAY_MS) * DAY_MS);
  const from = instant('from', request.from) ?? new Date(to.getTime() - DAY_MS);
  for (const [param, at] of [
    ['to', to],
    ['from', from],
  ] as const) {
    if (at.getTime() % DAY_MS === 0) continue;
    throw invalid(param, `${param}: must be a midnight in UTC, such as 2026-11-20T00:00:00Z.`);
  }
  return checkedRange({ from, to }, MAX_DAYS);
}

const lastDay = ({ to }: Range) => new Date(to.getTime() - DAY_MS);

/** One day after the other, so that only the rows of a day are sorted at once. */
async function* focusLines(db: Database, query: SpendQuery): AsyncGenerator<string> {
  // With the first rows: before the response starts, an invalid query still gets an error.
  let head = focusHeader();
  const { from, to } = query.filter;
  for (let day = from.getTime(); day < to.getTime(); day += DAY_MS) {
    const ofDay = { from: new Date(day), to: new Date(day + DAY_MS) };
    const rows = streamSpendRows(db, { ...query, filter: { ...query.filter, ...ofDay } });
    for await (const some of rows) {
      const names = await readNames(db, FOCUS_DIMENSIONS, some);
      yield head + some.map((row) => focusRecord(ofDay, row, names)).join('');
      head = '';
    }
  }
  if (head !== '') yield head;
}
