import {
  CALENDAR_UNITS,
  type CalendarUnit,
  calendarEdges,
  isTimezone,
  microFromNano,
  windowAt,
} from '@weighbridge/domain';
import { SPEND_DIMENSIONS, type SpendDimension, type SpendRow } from '@weighbridge/ledger';
import { checkedRange, instant, invalid, type Range, splitEscaped, unescaped } from './ledgerQuery.ts';

export const BUCKETS = CALENDAR_UNITS;

const MAX_DIMENSIONS = 6;
const MAX_DAYS = 400;
/** By the hour, a longer range has more buckets than anybody reads. */
const MAX_DAYS_BY_HOUR = 92;
const LABEL = 'label:';

/** One group in one bucket, as the API shows it. */
export interface PresentedSpend {
  readonly bucket_start: string | null;
  /** By the names of `group_by`. */
  readonly group: Record<string, string | null>;
  readonly requests: number;
  readonly attempts: number;
  readonly estimated_requests: number;
  readonly errors: number;
  readonly input_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly cache_write_1h_tokens: number;
  readonly output_tokens: number;
  readonly cost_micro_usd: number;
  readonly cost_nano_usd: string;
}

/** Reads `group_by`: names divided by commas, a label as `label:<key>`. */
export function dimensions(text: string | undefined): SpendDimension[] {
  if (text === undefined || text === '') return [];
  const names = splitEscaped(text, ',').map((name) => dimension(unescaped(name.trim())));
  const unique = [...new Set(names)];
  if (unique.length > MAX_DIMENSIONS)
    throw invalid('group_by', `group_by: takes at most ${MAX_DIMENSIONS} names.`);
  return unique;
}

function dimension(name: string): SpendDimension {
  const plain = SPEND_DIMENSIONS.find((one) => one === name);
  if (plain) return plain;
  if (name.startsWith(LABEL) && name.length > LABEL.length) return `label:${name.slice(LABEL.length)}`;
  throw invalid('group_by', `group_by: must be of ${SPEND_DIMENSIONS.join(', ')}, label:<key>.`);
}

export function timezoneOf(text: string | undefined): string {
  const timezone = text ?? 'UTC';
  if (isTimezone(timezone)) return timezone;
  throw invalid(
    'timezone',
    'timezone: must be a name of the IANA time zone database, such as Europe/Berlin.',
  );
}

/** The range asked for: where it is left out, the current month, or the month up to `to`, until now. */
export function spendRange(
  query: { readonly from?: string; readonly to?: string; readonly bucket?: CalendarUnit },
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

export function presentSpend(groupBy: readonly SpendDimension[], row: SpendRow): PresentedSpend {
  return {
    bucket_start: row.bucketStart?.toISOString() ?? null,
    group: Object.fromEntries(groupBy.map((name, index) => [name, row.group[index] ?? null])),
    requests: row.requests,
    attempts: row.attempts,
    estimated_requests: row.estimatedRequests,
    errors: row.errors,
    input_tokens: row.inputTokens,
    cache_read_tokens: row.cacheReadTokens,
    cache_write_tokens: row.cacheWriteTokens,
    cache_write_1h_tokens: row.cacheWrite1hTokens,
    output_tokens: row.outputTokens,
    cost_micro_usd: microFromNano(row.cost),
    cost_nano_usd: String(row.cost),
  };
}
