import { readSpendCompleteness, type SpendQuery, streamSpendRows } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import type { FocusRequest } from './focus.schemas.ts';
import { type Charge, FOCUS_DIMENSIONS, focusCharge } from './focusColumns.ts';
import { focusCsv } from './focusCsv.ts';
import { focusParquet } from './focusParquet.ts';
import { checkedRange, instant, invalid, ledgerFilter, type Range } from './ledgerQuery.ts';
import type { SpendDeps } from './spend.service.ts';
import { readNames } from './spendNames.ts';

const DAY_MS = 86_400_000;
const MAX_DAYS = 31;

export type FocusFormat = 'csv' | 'parquet';

export interface FocusExport {
  readonly content: AsyncGenerator<string | Uint8Array>;
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
  format: FocusFormat,
): Promise<FocusExport> {
  const range = dayRange(request, deps.now());
  const query: SpendQuery = {
    filter: ledgerFilter(caller, request, range),
    groupBy: FOCUS_DIMENSIONS,
    bucketEdges: [],
  };
  const { isComplete } = await readSpendCompleteness(deps.db, query, deps.archive);
  const days = [range.from, ...(range.to.getTime() - range.from.getTime() > DAY_MS ? [lastDay(range)] : [])];
  const name = `focus-${days.map((day) => day.toISOString().slice(0, 10)).join('-to-')}.${format}`;
  const charges = readCharges(deps, query);
  return { content: format === 'csv' ? focusCsv(charges) : focusParquet(charges), isComplete, name };
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
async function* readCharges({ db, archive }: SpendDeps, query: SpendQuery): AsyncGenerator<Charge[]> {
  const { from, to } = query.filter;
  for (let start = from.getTime(); start < to.getTime(); start += DAY_MS) {
    const day = { from: new Date(start), to: new Date(start + DAY_MS) };
    const rows = streamSpendRows(db, { ...query, filter: { ...query.filter, ...day } }, archive);
    for await (const some of rows) {
      const names = await readNames(db, FOCUS_DIMENSIONS, some);
      yield some.map((row) => focusCharge(day, row, names));
    }
  }
}
