import { type CalendarUnit, calendarEdges, isTimezone, microFromNano, windowAt } from '@weighbridge/domain';
import {
  type SpendRow as LedgerSpendRow,
  type PreviousSums,
  SPEND_DIMENSIONS,
  type SpendDimension,
  type SpendQuery,
} from '@weighbridge/ledger';
import { wholeNumber } from '../../shared/wholeNumber.ts';
import { checkedRange, instant, invalid, type Range, splitEscaped, unescaped } from './ledgerQuery.ts';
import { MAX_LIMIT, type SpendRequest, type SpendRow, type SpendTotal } from './spend.schemas.ts';
import { namesOf, type SpendNames } from './spendNames.ts';

const MAX_DIMENSIONS = 6;
const MAX_DAYS = 400;
const MAX_DAYS_BY_HOUR = 92;
const LABEL = 'label:';

/** Parses `group_by`: comma-separated names, a label as `label:<key>`. */
export function dimensions(text: string | undefined): SpendDimension[] {
  if (text === undefined || text === '') return [];
  const names = splitEscaped(text, ',').map((name) => dimension(unescaped(name.trim())));
  const unique = [...new Set(names)];
  if (unique.length > MAX_DIMENSIONS)
    throw invalid('group_by', `group_by: may contain at most ${MAX_DIMENSIONS} names.`);
  return unique;
}

function dimension(name: string): SpendDimension {
  const plain = SPEND_DIMENSIONS.find((one) => one === name);
  if (plain) return plain;
  if (name.startsWith(LABEL) && name.length > LABEL.length) return `label:${name.slice(LABEL.length)}`;
  throw invalid('group_by', `group_by: must contain only ${SPEND_DIMENSIONS.join(', ')}, label:<key>.`);
}

export function timezoneOf(text: string | undefined): string {
  const timezone = text ?? 'UTC';
  if (isTimezone(timezone)) return timezone;
  throw invalid('timezone', 'timezone: must be an IANA time zone name, such as Europe/Berlin.');
}

/** The requested range; by default from the start of the month of `to`, which is now by default. */
export function spendRange(
  query: Pick<SpendRequest, 'from' | 'to' | 'bucket'>,
  timezone: string,
  now: Date,
): Range {
  const to = instant('to', query.to) ?? now;
  const from = instant('from', query.from) ?? windowAt('month', timezone, new Date(to.getTime() - 1)).start;
  return checkedRange({ from, to }, query.bucket === 'hour' ? MAX_DAYS_BY_HOUR : MAX_DAYS);
}

export function bucketEdges(bucket: CalendarUnit | undefined, timezone: string, range: Range): Date[] {
  return bucket ? calendarEdges(bucket, timezone, range.from, range.to) : [];
}

export function presentSpend(
  groupBy: readonly SpendDimension[],
  row: LedgerSpendRow,
  names: SpendNames,
  previous?: PreviousSums,
): SpendRow {
  return {
    bucket_start: row.bucketStart?.toISOString() ?? null,
    group: Object.fromEntries(groupBy.map((name, index) => [name, row.group[index] ?? null])),
    names: namesOf(names, groupBy, row),
    others: row.isOthers,
    ...presentMeasures(row, previous),
  };
}

export function presentMeasures(
  row: Omit<LedgerSpendRow, 'group' | 'position'>,
  previous?: PreviousSums,
): SpendTotal {
  return {
    requests: row.requests,
    attempts: row.attempts,
    estimated_attempts: row.estimatedRequests,
    failed_attempts: row.errors,
    estimated_requests: row.estimatedRequests,
    errors: row.errors,
    input_tokens: row.inputTokens,
    cache_read_tokens: row.cacheReadTokens,
    cache_write_tokens: row.cacheWriteTokens,
    cache_write_1h_tokens: row.cacheWrite1hTokens,
    output_tokens: row.outputTokens,
    cost_micro_usd: microFromNano(row.cost),
    cost_nano_usd: String(row.cost),
    ...(previous && {
      previous: {
        requests: previous.requests,
        attempts: previous.attempts,
        cost_micro_usd: microFromNano(previous.cost),
        cost_nano_usd: String(previous.cost),
      },
    }),
  };
}

/** What a query without any usage adds up to. */
export const NO_SPEND = {
  bucketStart: null,
  requests: 0,
  attempts: 0,
  estimatedRequests: 0,
  errors: 0,
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  cost: 0n,
  isOthers: false,
} as const;

/** `sort` and `limit` of a request. */
export function spendOrder({
  sort,
  limit,
  group_by,
  page_size,
  page_token,
}: SpendRequest): Pick<SpendQuery, 'sort' | 'limit'> {
  if (limit === undefined) return { sort, limit: undefined };
  if (page_size !== undefined || page_token !== undefined) {
    throw invalid('limit', 'limit: all rows come on one page; leave out page_size and page_token.');
  }
  if (!group_by) throw invalid('limit', 'limit: is of groups; give group_by.');
  return { sort: sort ?? '-cost', limit: wholeNumber('limit', limit, 1, MAX_LIMIT) };
}
