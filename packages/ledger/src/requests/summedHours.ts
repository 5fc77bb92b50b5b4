import { arrayLiteral, type Database } from '@weighbridge/database';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { type LedgerFilter, mayMatchSums } from '../spend/ledgerFilter.ts';
import { readSumsSince, type SumsSource, sumsSource } from '../spend/sumsSince.ts';
import { FAILED, HOURS, type SumsTable } from '../spend/usageSums.ts';
import type { RequestFilter } from './attemptsSql.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const MAX_DAYS_AT_ONCE = 31;

/** An hour in which attempts may match, by its sums. */
export interface SummedHour {
  readonly hour: Date;
  readonly keyIds: readonly string[];
  /** How many there are at most, but for the first and the last hour of the range. */
  readonly attempts: number;
}

const SUMMED: readonly (keyof LedgerFilter)[] = [
  'principalId',
  'within',
  'teamId',
  'keyId',
  'policyId',
  'model',
  'provider',
  'user',
  'team',
  'project',
  'env',
];

/** Whether sums of hours tell where the attempts are that a filter wants. */
export function isSummed(filter: RequestFilter): boolean {
  return SUMMED.some((name) => filter[name] !== undefined);
}

/**
 * The hours before a time in which attempts may match, the newest first. Sums of days tell which ones to read. `wanted` is how many
 * attempts are to be in the days that are read at once.
 */
export async function* summedHours(
  db: Database,
  filter: RequestFilter,
  before: Date,
  wanted: number,
): AsyncGenerator<SummedHour> {
  const range = { ...filter, from: floor(filter.from, HOUR_MS), to: before };
  const source = sumsSource({ filter, groupBy: [] }, await readSumsSince(db));
  const { rows } = await daysSql(range, source).execute(db);
  let days: Date[] = [];
  let attempts = 0;
  for (const [index, row] of rows.entries()) {
    days.push(row.day);
    attempts += Number(row.attempts);
    const next = rows[index + 1];
    const isEnough = attempts >= wanted || days.length >= MAX_DAYS_AT_ONCE;
    // Days that are not known whole are read by themselves.
    if (next && !isEnough && next.day >= source.since) continue;
    const { rows: hours } = await hoursSql(range, days, row.day >= source.since ? source : undefined).execute(
      db,
    );
    for (const { hour, keys, attempts: count } of hours) {
      yield { hour, keyIds: keys, attempts: Number(count) };
    }
    days = [];
    attempts = 0;
  }
}

const floor = (at: Date, unitMs: number) => new Date(Math.floor(at.getTime() / unitMs) * unitMs);

/** Corrections alone are 0 of both; a hit of the cache is no attempt. */
const ATTEMPTS = sql`greatest(attempts, requests, 1)`;

function daysSql(
  filter: RequestFilter,
  { days, since }: SumsSource,
): RawBuilder<{ day: Date; attempts: string }> {
  const ofDays = [
    sql<SqlBool>`day >= ${since}`,
    ...conditions(days, { ...filter, from: floor(filter.from, DAY_MS) }),
  ];
  const ofHours = [sql<SqlBool>`hour < ${since}`, ...conditions(HOURS, filter)];
  return sql`
    SELECT day, sum(attempts)::text AS attempts
    FROM (
      SELECT day, ${ATTEMPTS} AS attempts FROM ${sql.table(days.name)} WHERE ${sql.join(ofDays, sql` AND `)}
      UNION ALL
      SELECT date_trunc('day', hour, 'UTC'), ${ATTEMPTS} FROM usage_by_hour WHERE ${sql.join(ofHours, sql` AND `)}
    ) AS summed
    GROUP BY day
    ORDER BY day DESC`;
}

interface HourRow {
  readonly hour: Date;
  readonly keys: readonly string[];
  readonly attempts: string;
}

/** Without a source, the days are not known whole. */
function hoursSql(
  filter: RequestFilter,
  days: readonly Date[],
  source: SumsSource | undefined,
): RawBuilder<HourRow> {
  const hours = source?.hours ?? HOURS;
  const list = sql`${arrayLiteral(days)}::timestamptz[]`;
  const starts = days.map(Number);
  const bounds = { from: new Date(Math.min(...starts)), to: new Date(Math.max(...starts) + DAY_MS) };
  const ofHours = conditions(hours, {
    ...filter,
    from: new Date(Math.max(Number(filter.from), Number(bounds.from))),
    to: new Date(Math.min(Number(filter.to), Number(bounds.to))),
  });
  // An hour has the digests of its day: looked up by them, the other groups of the hour are not read.
  const table = sql.table(hours.name);
  const rows = source
    ? sql`(SELECT DISTINCT day, group_sha256 FROM ${sql.table(source.days.name)}
        WHERE ${sql.join([sql`day = ANY (${list})`, ...conditions(source.days, { ...filter, ...bounds })], sql` AND `)}
      ) AS of_day
      CROSS JOIN generate_series(0, 23) AS number
      JOIN ${table} ON ${table}.hour = of_day.day + number * interval '1 hour'
        AND ${table}.group_sha256 = of_day.group_sha256`
    : table;
  return sql<HourRow>`
    SELECT hour, array_agg(DISTINCT key_id) AS keys, sum(${ATTEMPTS})::text AS attempts
    FROM ${rows}
    WHERE ${sql.join(ofHours, sql` AND `)}
    GROUP BY hour
    ORDER BY hour DESC`;
}

/** Also of sums that may have what is wanted under `(other)`: whoever reads the attempts sees their true values. */
function conditions({ name, unit }: SumsTable, filter: RequestFilter): RawBuilder<SqlBool>[] {
  const { estimated, outcome } = filter;
  return [
    ...mayMatchSums(name, unit, filter),
    ...(estimated === true ? [sql<SqlBool>`${sql.ref(`${name}.estimated`)} > 0`] : []),
    ...(outcome !== undefined && FAILED.includes(outcome)
      ? [sql<SqlBool>`${sql.ref(`${name}.errors`)} > 0`]
      : []),
  ];
}
