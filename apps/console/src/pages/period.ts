import type { Search } from '../ui/search.ts';
import type { Bucket } from '../ui/series.ts';

const DAY_MS = 86_400_000;

/** The first moment of a month in UTC. */
function monthStart(now: Date): string {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString();
}

/** Midnight in UTC, some days ago. */
export function daysAgo(now: Date, days: number): string {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - days)).toISOString();
}

export interface Period {
  readonly from: string;
  /** Undefined: now. */
  readonly to?: string;
}

const isTime = (text: string) => !Number.isNaN(Date.parse(text));

/** The period that an address names: fixed by `from` and `to`, or one that goes along with time. */
export function periodOf({ from, to, range = 'month' }: Search, now: Date): Period {
  if (from !== undefined && [from, to ?? from].every(isTime))
    return { from, ...(to !== undefined && { to }) };
  return { from: range === 'month' ? monthStart(now) : daysAgo(now, Number(range)) };
}

/** The days of UTC in a period that are over, at most the last 31: what a FOCUS file has. If none is, the last one before. */
export function wholeDays({ from, to }: Period, now: Date): { readonly from: string; readonly to: string } {
  const until = Math.min(to === undefined ? now.getTime() : Date.parse(to), now.getTime());
  const end = Math.floor(until / DAY_MS) * DAY_MS;
  const first = Math.ceil(Date.parse(from) / DAY_MS) * DAY_MS;
  const start = Math.min(Math.max(first, end - 31 * DAY_MS), end - DAY_MS);
  return { from: new Date(start).toISOString(), to: new Date(end).toISOString() };
}

/** The longest range of the page that is less than half of a period; undefined if it has none. */
export function shorterRange({ from, to }: Period, now: Date): '30' | '7' | '1' | undefined {
  const days = (Date.parse(to ?? now.toISOString()) - Date.parse(from)) / DAY_MS;
  return (['30', '7', '1'] as const).find((range) => Number(range) + 1 <= days / 2);
}

/** The buckets that a chart of the period shows at most a hundred of. */
export function bucketOf({ from, to }: Period, now: Date): Bucket {
  const days = (Date.parse(to ?? now.toISOString()) - Date.parse(from)) / DAY_MS;
  if (days <= 3) return 'hour';
  return days <= 95 ? 'day' : 'month';
}

/** A bucket's beginning, in UTC as the ledger counts. */
export function bucketLabel(at: string, bucket: Bucket): string {
  if (bucket === 'hour') return at.slice(5, 16).replace('T', ' ');
  return bucket === 'day' ? at.slice(5, 10) : at.slice(0, 7);
}
