import { type RawBuilder, sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';

/** The dimensions whose values callers choose. Their order is part of digests. */
export const CALLERS_DIMENSIONS = [
  'user',
  'team',
  'project',
  'env',
  'workload_type',
  'namespace',
  'workload',
] as const;
export type CallersDimension = (typeof CALLERS_DIMENSIONS)[number];
/** Dimensions that hours had from the beginning. Their order is part of the digest. */
const FIRST_DIMENSIONS = ['principal_id', 'key_id', 'policy_id', 'model', ...CALLERS_DIMENSIONS] as const;
/** Dimensions that came later. The digest has them only where they have a value, so that of earlier hours stays as it is. */
const LATER_DIMENSIONS = ['team_id'] as const;
/** The dimensions of usage_by_hour and usage_by_day beside their time and shard. */
export const SUM_DIMENSIONS = [...FIRST_DIMENSIONS, ...LATER_DIMENSIONS] as const;
export type SumDimension = (typeof SUM_DIMENSIONS)[number];
/** Those of usage_totals_by_hour and usage_totals_by_day. */
const TOTALS_DIMENSIONS = SUM_DIMENSIONS.filter((name) => !isCallers(name));

/** What the tables of sums add up. */
export const SUM_MEASURES = [
  'attempts',
  'requests',
  'model_requests',
  'estimated',
  'errors',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'output_tokens',
  'cost_nano_usd',
] as const;
export type SumMeasure = (typeof SUM_MEASURES)[number];

export interface SumsTable {
  readonly name: 'usage_by_hour' | 'usage_by_day' | 'usage_totals_by_hour' | 'usage_totals_by_day';
  /** Also the column of its time. */
  readonly unit: 'hour' | 'day';
  readonly dimensions: readonly SumDimension[];
}

export const HOURS: SumsTable = { name: 'usage_by_hour', unit: 'hour', dimensions: SUM_DIMENSIONS };
export const DAYS: SumsTable = { name: 'usage_by_day', unit: 'day', dimensions: SUM_DIMENSIONS };
export const TOTAL_HOURS: SumsTable = {
  name: 'usage_totals_by_hour',
  unit: 'hour',
  dimensions: TOTALS_DIMENSIONS,
};
export const TOTAL_DAYS: SumsTable = {
  name: 'usage_totals_by_day',
  unit: 'day',
  dimensions: TOTALS_DIMENSIONS,
};
/** In the order in which writers lock their rows. */
export const SUMS_TABLES = [HOURS, DAYS, TOTAL_HOURS, TOTAL_DAYS] as const;

/** The outcomes of attempts that failed at the vendor or on the way there. */
export const FAILED = ['upstream_error', 'upstream_unreachable', 'interrupted'];

export function isCallers(name: string): name is CallersDimension {
  return (CALLERS_DIMENSIONS as readonly string[]).includes(name);
}

/** An SQL expression on a row of usage_events: the value of a dimension. */
export function eventDimension(dimension: SumDimension): RawBuilder<unknown> {
  return isCallers(dimension) ? sql`attribution ->> ${sql.lit(dimension)}` : sql.ref(dimension);
}

/** An SQL expression on a row of usage_events: what it adds to a measure. */
export function eventMeasure(measure: SumMeasure): RawBuilder<unknown> {
  switch (measure) {
    case 'attempts':
      return sql`(kind = 'attempt' AND NOT cache_hit)::integer`;
    case 'requests':
      return sql`(attempt = 1)::integer`;
    case 'model_requests':
      return sql`(model_attempt = 1)::integer`;
    case 'estimated':
      return sql`estimated::integer`;
    case 'errors':
      return sql`(outcome IN (${sql.join(FAILED.map((outcome) => sql.lit(outcome)))}))::integer`;
    default:
      return sql.ref(measure);
  }
}

/** An SQL expression: the sum of a measure, as the tables hold it. */
export function sumOfMeasure(measure: SumMeasure): RawBuilder<unknown> {
  const sum = sql`sum(${sql.ref(measure)})`;
  return measure === 'cost_nano_usd' ? boundedSum(sum) : sql`${sum}::bigint`;
}

/** The text of a group, of which a table's digest is. Each value is preceded by its length, so that no two groups have the same. */
export function groupText(group: Readonly<Record<SumDimension, string | null>>): string {
  return (
    FIRST_DIMENSIONS.map((name) => withLength(group[name]) ?? '-').join('') +
    LATER_DIMENSIONS.map((name) => withLength(group[name]) ?? '').join('')
  );
}

/** The same of callers' values alone. */
export function valuesText(values: Readonly<Record<CallersDimension, string | null>>): string {
  return CALLERS_DIMENSIONS.map((name) => withLength(values[name]) ?? '-').join('');
}

function withLength(value: string | null): string | undefined {
  return value === null ? undefined : `${Buffer.byteLength(value)}:${value}`;
}

/** An SQL expression on columns named as a table's dimensions: the digest of `groupText`. */
export function groupSha256({ dimensions }: Pick<SumsTable, 'dimensions'>): RawBuilder<unknown> {
  const text = (name: SumDimension, missing: RawBuilder<unknown>) =>
    dimensions.includes(name) ? textSql(sql.ref(name), missing) : missing;
  return sha256Sql([
    ...FIRST_DIMENSIONS.map((name) => text(name, DASH)),
    ...LATER_DIMENSIONS.map((name) => text(name, NOTHING)),
  ]);
}

/** An SQL expression: the digest of `valuesText`, of expressions for the values. */
export function valuesSha256(value: (name: CallersDimension) => RawBuilder<unknown>): RawBuilder<unknown> {
  return sha256Sql(CALLERS_DIMENSIONS.map((name) => textSql(value(name), DASH)));
}

const DASH = sql`'-'`;
const NOTHING = sql`''`;

function textSql(value: RawBuilder<unknown>, missing: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`coalesce(octet_length(${value}) || ':' || ${value}, ${missing})`;
}

function sha256Sql(parts: readonly RawBuilder<unknown>[]): RawBuilder<unknown> {
  return sql`sha256(convert_to(${sql.join(parts, sql` || `)}, 'UTF8'))`;
}

/** The columns of a table of sums, for INSERT and SELECT. */
export function columnsOf({ unit, dimensions }: SumsTable): RawBuilder<unknown> {
  return sql.join(
    [unit, 'group_sha256', 'shard', ...dimensions, ...SUM_MEASURES].map((name) => sql.ref(name)),
  );
}

/** The ON CONFLICT clause that adds to an existing row. */
export function addToExisting({ name: table, unit }: SumsTable): RawBuilder<unknown> {
  const added = SUM_MEASURES.map((name) => {
    const [before, more] = [sql.ref(`${table}.${name}`), sql.ref(`excluded.${name}`)];
    // Counts and tokens would need billions of events in one hour of one group.
    const sum =
      name === 'cost_nano_usd' ? boundedSum(sql`${before}::numeric + ${more}`) : sql`${before} + ${more}`;
    return sql`${sql.ref(name)} = ${sum}`;
  });
  return sql`ON CONFLICT (${sql.ref(unit)}, group_sha256, shard) DO UPDATE SET ${sql.join(added)}`;
}

/**
 * Says of this transaction that it changes days and totals with the hours. Whatever changes the hours without it makes those of now
 * unknown (migrations 0049 and 0057).
 */
export const KEEPS_SUMS = sql`concat(set_config('weighbridge.keeps_days', 'on', true), set_config('weighbridge.keeps_totals', 'on', true))`;
