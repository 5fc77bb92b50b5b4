import { createHash } from 'node:crypto';
import { arrayLiteral, type Tx, type UsageEvents } from '@weighbridge/database';
import { type Insertable, type RawBuilder, sql } from 'kysely';

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
/** The dimensions of usage_by_hour beside hour and shard. */
export const HOUR_DIMENSIONS = [...FIRST_DIMENSIONS, ...LATER_DIMENSIONS] as const;
type HourDimension = (typeof HOUR_DIMENSIONS)[number];

/** The sums of usage_by_hour. */
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
export const HOUR_COLUMNS = sql.join(
  ['hour', 'group_sha256', 'shard', ...HOUR_DIMENSIONS, ...HOUR_MEASURES].map((name) => sql.ref(name)),
);

/** The ON CONFLICT clause that adds to an existing row. */
export const ADD_TO_HOUR = sql`ON CONFLICT (hour, group_sha256, shard) DO UPDATE SET ${sql.join(
  HOUR_MEASURES.map(
    (name) => sql`${sql.ref(name)} = ${sql.ref(`usage_by_hour.${name}`)} + ${sql.ref(`excluded.${name}`)}`,
  ),
)}`;

/**
 * Adds events to the hours of their admission. Only for rows that the same transaction inserted, or they would count twice.
 * Locks rows in the order of the primary key.
 */
export async function addToHours(tx: Tx, newEvents: readonly { readonly row: EventRow }[]): Promise<void> {
  const sums = new Map<string, HourSum>();
  // Most events share their group with another one, so it is computed once. Events of one caller share the attribution text.
  const known = new Map<string, Map<string, HourSum>>();
  for (const { row } of newEvents) {
    const hour = Math.floor(new Date(row.admitted_at).getTime() / HOUR_MS) * HOUR_MS;
    const attribution = attributionText(row);
    const groups = known.get(attribution) ?? new Map<string, HourSum>();
    known.set(attribution, groups);
    // No text of the ledger contains a NUL.
    const key = `${hour}/${row.shard}/${row.key_id}\0${row.model}\0${row.policy_id}\0${row.principal_id}\0${row.team_id ?? ''}`;
    const sum = groups.get(key) ?? sumFor(sums, hour, row);
    groups.set(key, sum);
    addMeasures(sum.measures, row);
  }
  if (sums.size === 0) return;
  const rows = [...sums.values()].map(hourRow);
  const column = (name: keyof HourRow, type: string) =>
    sql`${arrayLiteral(rows.map((row) => row[name]))}::${sql.raw(type)}[]`;
  await sql`
    INSERT INTO usage_by_hour (${HOUR_COLUMNS})
    SELECT ${HOUR_COLUMNS}
    FROM unnest(${sql.join([
      column('hour', 'timestamptz'),
      column('group_sha256', 'bytea'),
      column('shard', 'smallint'),
      ...HOUR_DIMENSIONS.map((name) => column(name, 'text')),
      ...HOUR_MEASURES.map((name) => column(name, 'bigint')),
    ])}) AS counted (${HOUR_COLUMNS})
    ORDER BY hour, group_sha256, shard
    ${ADD_TO_HOUR}`.execute(tx);
}

interface HourSum {
  /** Unix milliseconds. */
  readonly hour: number;
  readonly shard: number;
  readonly group: Record<HourDimension, string | null>;
  readonly groupText: string;
  readonly measures: Measures;
}

/** Counts and tokens of one transaction fit a number exactly; money may not. */
type Measures = Record<Exclude<HourMeasure, 'cost_nano_usd'>, number> & { cost_nano_usd: bigint };

/** The sum of an event's hour, shard and group, created at its first event. */
function sumFor(sums: Map<string, HourSum>, hour: number, row: EventRow): HourSum {
  // Corrections have no shard.
  const shard = row.shard ?? 0;
  const group = groupOf(row);
  const groupText = textOf(group);
  const key = `${hour}/${shard}/${groupText}`;
  const sum = sums.get(key) ?? { hour, shard, group, groupText, measures: noMeasures() };
  sums.set(key, sum);
  return sum;
}

interface HourRow extends Measures, Record<HourDimension, string | null> {
  readonly hour: Date;
  readonly group_sha256: string;
  readonly shard: number;
}

function hourRow({ hour, shard, group, groupText, measures }: HourSum): HourRow {
  const digest = createHash('sha256').update(groupText).digest('hex');
  return { hour: new Date(hour), group_sha256: `\\x${digest}`, shard, ...group, ...measures };
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
