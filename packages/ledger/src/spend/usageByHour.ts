import { createHash } from 'node:crypto';
import { arrayLiteral, type Tx, type UsageEvents } from '@weighbridge/database';
import { type Insertable, type RawBuilder, sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';

/** Dimensions that hours had from the beginning. Their order is part of the digest. */
const FIRST_DIMENSIONS = [
  'principal_id',
  'key_id',
  'policy_id',
  'model',
  'user',
  'team',
  'project',
  'env',
  'workload_type',
  'namespace',
  'workload',
] as const;
/** Dimensions that came later. The digest has them only where they have a value, so that of earlier hours stays as it is. */
const LATER_DIMENSIONS = ['team_id'] as const;
/** The dimensions of usage_by_hour and usage_by_day beside their time and shard. */
export const HOUR_DIMENSIONS = [...FIRST_DIMENSIONS, ...LATER_DIMENSIONS] as const;
type HourDimension = (typeof HOUR_DIMENSIONS)[number];

/** The sums of usage_by_hour and usage_by_day. */
export const HOUR_MEASURES = [
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
type HourMeasure = (typeof HOUR_MEASURES)[number];

/** The outcomes of attempts that failed at the vendor or on the way there. */
export const FAILED = ['upstream_error', 'upstream_unreachable', 'interrupted'];

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

type EventRow = Omit<Insertable<UsageEvents>, 'bucket_keys'>;

/** An SQL expression on a row of usage_events: the value of a dimension. */
export function eventDimension(dimension: HourDimension): RawBuilder<unknown> {
  return isColumn(dimension) ? sql.ref(dimension) : sql`attribution ->> ${sql.lit(dimension)}`;
}

/** An SQL expression on a row of usage_events: what it adds to a measure. */
export function eventMeasure(measure: HourMeasure): RawBuilder<unknown> {
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

/** An SQL expression: the sum of a measure over events, as the tables hold it. */
export function sumOfMeasure(measure: string): RawBuilder<unknown> {
  const sum = sql`sum(${sql.ref(measure)})`;
  return measure === 'cost_nano_usd' ? boundedSum(sum) : sum;
}

/** An SQL expression on columns named as the dimensions: the digest of `textOf`. */
export const GROUP_SHA256 = sql`sha256(convert_to(${sql.join(
  [
    ...FIRST_DIMENSIONS.map((name) => sql`coalesce(${withLength(name)}, '-')`),
    ...LATER_DIMENSIONS.map((name) => sql`coalesce(${withLength(name)}, '')`),
  ],
  sql` || `,
)}, 'UTF8'))`;

function withLength(name: string): RawBuilder<string> {
  return sql`octet_length(${sql.ref(name)}) || ':' || ${sql.ref(name)}`;
}

/** The columns of usage_by_hour, for INSERT and SELECT. */
export const HOUR_COLUMNS = columnsOf('hour');
/** The columns of usage_by_day. */
export const DAY_COLUMNS = columnsOf('day');

type Unit = 'hour' | 'day';

function columnsOf(unit: Unit): RawBuilder<unknown> {
  return sql.join(
    [unit, 'group_sha256', 'shard', ...HOUR_DIMENSIONS, ...HOUR_MEASURES].map((name) => sql.ref(name)),
  );
}

/** The ON CONFLICT clause that adds to an existing row of usage_by_hour or usage_by_day. */
export function addToExisting(unit: Unit): RawBuilder<unknown> {
  const added = HOUR_MEASURES.map((name) => {
    const [before, more] = [sql.ref(`usage_by_${unit}.${name}`), sql.ref(`excluded.${name}`)];
    // Counts and tokens would need billions of events in one hour of one group.
    const sum =
      name === 'cost_nano_usd' ? boundedSum(sql`${before}::numeric + ${more}`) : sql`${before} + ${more}`;
    return sql`${sql.ref(name)} = ${sum}`;
  });
  return sql`ON CONFLICT (${sql.ref(unit)}, group_sha256, shard) DO UPDATE SET ${sql.join(added)}`;
}

/**
 * Says of this transaction that it changes the days with the hours. Whatever changes the hours without it makes the days of now
 * unknown (migration 0049).
 */
export const KEEPS_DAYS = sql`set_config('weighbridge.keeps_days', 'on', true)`;

/**
 * Adds events to the hours and days of their admission. Only for rows that the same transaction inserted, or they would count twice.
 * Locks hours and then days, each in the order of the primary key.
 */
export async function addToHours(tx: Tx, newEvents: readonly { readonly row: EventRow }[]): Promise<void> {
  const sums = new Map<string, GroupSum>();
  // Most events share their group with another one, so it is computed once. Events of one caller share the attribution text.
  const known = new Map<string, Map<string, GroupSum>>();
  for (const { row } of newEvents) {
    const hour = Math.floor(new Date(row.admitted_at).getTime() / HOUR_MS) * HOUR_MS;
    const attribution = attributionText(row);
    const groups = known.get(attribution) ?? new Map<string, GroupSum>();
    known.set(attribution, groups);
    // No text of the ledger contains a NUL.
    const key = `${hour}/${row.shard}/${row.key_id}\0${row.model}\0${row.policy_id}\0${row.principal_id}\0${row.team_id ?? ''}`;
    const sum = groups.get(key) ?? sumFor(sums, hour, row);
    groups.set(key, sum);
    addMeasures(sum.measures, row);
  }
  if (sums.size === 0) return;
  await addRows(
    tx,
    'hour',
    [...sums.values()].map((sum) => sumRow(sum)),
  );
  await addRows(
    tx,
    'day',
    byDay(sums.values()).map((sum) => sumRow(sum)),
  );
}

async function addRows(tx: Tx, unit: Unit, rows: readonly SumRow[]): Promise<void> {
  const column = (name: keyof SumRow, type: string) =>
    sql`${arrayLiteral(rows.map((row) => row[name]))}::${sql.raw(type)}[]`;
  const columns = columnsOf(unit);
  await sql`
    INSERT INTO ${sql.table(`usage_by_${unit}`)} (${columns})
    SELECT ${columns}
    FROM unnest(${sql.join([
      column('at', 'timestamptz'),
      column('group_sha256', 'bytea'),
      column('shard', 'smallint'),
      ...HOUR_DIMENSIONS.map((name) => column(name, 'text')),
      ...HOUR_MEASURES.map((name) => column(name, 'bigint')),
    ])}) AS counted (${columns})
    CROSS JOIN ${KEEPS_DAYS} AS announced
    ORDER BY ${sql.ref(unit)}, group_sha256, shard
    ${addToExisting(unit)}`.execute(tx);
}

/** The sums of hours, added up by day. */
function byDay(hours: Iterable<GroupSum>): GroupSum[] {
  const days = new Map<string, GroupSum>();
  for (const { at, shard, group, groupText, measures } of hours) {
    const day = Math.floor(at / DAY_MS) * DAY_MS;
    const key = `${day}/${shard}/${groupText}`;
    const sum = days.get(key) ?? { at: day, shard, group, groupText, measures: noMeasures() };
    days.set(key, sum);
    for (const name of HOUR_MEASURES) {
      if (name === 'cost_nano_usd') sum.measures.cost_nano_usd += measures.cost_nano_usd;
      else sum.measures[name] += measures[name];
    }
  }
  return [...days.values()];
}

interface GroupSum {
  /** When its hour or day starts, in Unix milliseconds. */
  readonly at: number;
  readonly shard: number;
  readonly group: Record<HourDimension, string | null>;
  readonly groupText: string;
  readonly measures: Measures;
}

/** Counts and tokens of one transaction fit a number exactly; money may not. */
type Measures = Record<Exclude<HourMeasure, 'cost_nano_usd'>, number> & { cost_nano_usd: bigint };

/** The sum of an event's hour, shard and group, created at its first event. */
function sumFor(sums: Map<string, GroupSum>, hour: number, row: EventRow): GroupSum {
  // Corrections have no shard.
  const shard = row.shard ?? 0;
  const group = groupOf(row);
  const groupText = textOf(group);
  const key = `${hour}/${shard}/${groupText}`;
  const sum = sums.get(key) ?? { at: hour, shard, group, groupText, measures: noMeasures() };
  sums.set(key, sum);
  return sum;
}

interface SumRow extends Measures, Record<HourDimension, string | null> {
  readonly at: Date;
  readonly group_sha256: string;
  readonly shard: number;
}

function sumRow({ at, shard, group, groupText, measures }: GroupSum): SumRow {
  const digest = createHash('sha256').update(groupText).digest('hex');
  return { at: new Date(at), group_sha256: `\\x${digest}`, shard, ...group, ...measures };
}

function isColumn(dimension: HourDimension): boolean {
  return ['principal_id', 'key_id', 'policy_id', 'model', 'team_id'].includes(dimension);
}

/** The column accepts text or a JSON value. */
function attributionText({ attribution }: EventRow): string {
  return typeof attribution === 'string' ? attribution : JSON.stringify(attribution);
}

function groupOf(row: EventRow): Record<HourDimension, string | null> {
  const attribution = JSON.parse(attributionText(row)) as Record<string, string | undefined>;
  const { principal_id, key_id, policy_id, model } = row;
  return {
    principal_id,
    key_id,
    policy_id,
    model,
    user: attribution.user ?? null,
    team: attribution.team ?? null,
    project: attribution.project ?? null,
    env: attribution.env ?? null,
    workload_type: attribution.workload_type ?? null,
    namespace: attribution.namespace ?? null,
    workload: attribution.workload ?? null,
    team_id: row.team_id ?? null,
  };
}

function noMeasures(): Measures {
  return {
    attempts: 0,
    requests: 0,
    model_requests: 0,
    estimated: 0,
    errors: 0,
    input_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 0,
    cost_nano_usd: 0n,
  };
}

function addMeasures(sum: Measures, row: EventRow): void {
  sum.attempts += Number(row.kind !== 'correction' && !row.cache_hit);
  sum.requests += Number((row.attempt ?? 1) === 1);
  sum.model_requests += Number((row.model_attempt ?? 1) === 1);
  sum.estimated += Number(row.estimated);
  sum.errors += Number(FAILED.includes(row.outcome));
  sum.input_tokens += row.input_tokens;
  sum.cache_read_tokens += row.cache_read_tokens;
  sum.cache_write_tokens += row.cache_write_tokens;
  sum.cache_write_1h_tokens += row.cache_write_1h_tokens;
  sum.output_tokens += row.output_tokens;
  sum.cost_nano_usd += row.cost_nano_usd;
}

/** Each value is preceded by its length, so that no two groups have the same text. A missing one is a dash, or nothing if it is later. */
function textOf(group: Record<HourDimension, string | null>): string {
  const text = (name: HourDimension, missing: string) => {
    const value = group[name];
    return value === null ? missing : `${Buffer.byteLength(value)}:${value}`;
  };
  return [
    ...FIRST_DIMENSIONS.map((name) => text(name, '-')),
    ...LATER_DIMENSIONS.map((name) => text(name, '')),
  ].join('');
}
