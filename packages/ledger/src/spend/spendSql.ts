import { type RawBuilder, sql } from 'kysely';
import { matches, matchesSums } from './ledgerFilter.ts';
import type { SpendDimension, SpendQuery, SpendSort } from './spendQuery.ts';
import { type SumsSince, type SumsSource, sumsSource } from './sumsSince.ts';
import { eventMeasure, HOURS, type SumsTable } from './usageSums.ts';

/** A row of the result, as Postgres returns it. */
export interface SpendSums {
  readonly bucket: Date | null;
  readonly requests: bigint;
  readonly attempts: bigint;
  readonly estimated_requests: bigint;
  readonly errors: bigint;
  readonly input_tokens: bigint;
  readonly cache_read_tokens: bigint;
  readonly cache_write_tokens: bigint;
  readonly cache_write_1h_tokens: bigint;
  readonly output_tokens: bigint;
  /** A sum of bigints is a numeric, which the driver returns as text. */
  readonly cost: string;
  /** Of a sorted query: 1 for the rest of a time bucket. */
  readonly others?: number;
  readonly sort_key?: string;
  readonly [group: `g${number}`]: string;
}

/** Where a query reads what it adds up. */
export interface SpendSources extends SumsSince {
  /** What `fromArchived` reads of attempts that are no longer in Postgres. */
  readonly archived?: RawBuilder<unknown> | undefined;
}

interface Range {
  readonly from: Date;
  readonly to: Date;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
const LABEL = 'label:';
const SERVICE_TIER = 'service_tier';
/** What only single attempts have. */
const OF_EVENTS: Readonly<Record<string, RawBuilder<unknown>>> = {
  [SERVICE_TIER]: sql`details ->> 'service_tier'`,
  connector: sql`nullif(connector_id, '')`,
  // As the request named it, or as the alias that it named stands for today: one of its policy, else one of all keys.
  profile: sql`coalesce(
    substring(model_requested FROM '^router/(.*)$'),
    (SELECT substring(alias.target FROM '^router/(.*)$') FROM aliases AS alias
     WHERE alias.name = model_requested AND coalesce(alias.policy_id, usage_events.policy_id) = usage_events.policy_id
     ORDER BY alias.policy_id NULLS LAST LIMIT 1))`,
  session: sql`attribution ->> 'session_id'`,
  outcome: sql`outcome`,
};
/** The dimensions that are columns of both tables. The others are in an event's attribution. */
const COLUMNS: Readonly<Record<string, string>> = {
  principal: 'principal_id',
  team_id: 'team_id',
  key: 'key_id',
  policy: 'policy_id',
  model: 'model',
  provider: 'provider',
};
export const TOKENS = [
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'output_tokens',
] as const;

const sum = (name: string) => sql`sum(${sql.ref(name)})::bigint AS ${sql.ref(name)}`;
const COUNTS = sql.join(['requests', 'attempts', 'estimated_requests', 'errors', ...TOKENS].map(sum));
/** Of rows of the ledger; a sum of bigints is a numeric. */
const SUMS = sql`${COUNTS}, sum(cost)::text AS cost`;
/** Of such sums. */
const SUMS_OF_SUMS = sql`${COUNTS}, sum(cost::numeric)::text AS cost`;

/**
 * Adds up whole days from sums of days, hours beside them from sums of hours, and the rest at the ends of the range from
 * `usage_events`. If the sums lack what the query groups or filters by, only `usage_events` is read.
 *
 * A value is grouped and sorted as '=' followed by itself, a missing one as '', so that a page can start after any of them.
 */
export function spendSql(
  query: SpendQuery,
  after: readonly string[] | undefined,
  since: SpendSources,
): RawBuilder<SpendSums> {
  if (query.sort === undefined) return unsorted(query, after, since);
  const order = sql.join([sql.ref('bucket'), sql.ref('others'), sql.ref('sort_key'), ...groupRefs(query)]);
  const rows =
    query.limit === undefined ? withoutOthers(query, since) : withOthers(query, query.limit, since);
  return sql<SpendSums>`
    SELECT * FROM (
      SELECT *, ${sortKey(query.sort)} AS sort_key FROM (${rows}) AS summed
    ) AS sorted
    WHERE ${after && after.length > 0 ? isAfterSorted(query, after) : sql`true`}
    ORDER BY ${order}`;
}

function unsorted(
  query: SpendQuery,
  after: readonly string[] | undefined,
  since: SpendSources,
): RawBuilder<SpendSums> {
  const bucketed = query.bucketEdges.length > 0;
  const order = sql.join([sql.ref('bucket'), ...groupRefs(query)]);
  return sql<SpendSums>`
    SELECT ${order}, ${SUMS}
    FROM (${sql.join(sources(query, after, since), sql` UNION ALL `)}) AS part
    WHERE ${after && after.length > 0 ? isAfter(query, after, bucketed) : sql`true`}
    GROUP BY ${order}
    ORDER BY ${order}`;
}

function withoutOthers(query: SpendQuery, since: SpendSources): RawBuilder<unknown> {
  return sql`SELECT grouped.*, 0 AS others FROM (${unsorted(query, undefined, since)}) AS grouped`;
}

/** The first groups by their sums over all time buckets; of the rest, one row in each time bucket. */
function withOthers(query: SpendQuery, limit: number, since: SpendSources): RawBuilder<unknown> {
  const groups = groupRefs(query);
  const list = sql.join(groups);
  const shown = groups.map((group) => sql`CASE WHEN place <= ${limit} THEN ${group} ELSE '' END AS ${group}`);
  return sql`
    WITH grouped AS MATERIALIZED (${unsorted(query, undefined, since)}),
    ranked AS (
      SELECT ${list}, row_number() OVER (ORDER BY ${sortKey(query.sort ?? '-cost')}, ${list}) AS place
      FROM (SELECT ${list}, ${SUMS_OF_SUMS} FROM grouped GROUP BY ${list}) AS overall
    ), marked AS (
      SELECT bucket, ${sql.join(shown)}, (place > ${limit})::integer AS others,
        requests, attempts, estimated_requests, errors, ${sql.join(TOKENS.map((name) => sql.ref(name)))}, cost
      FROM grouped JOIN ranked USING (${list})
    )
    SELECT bucket, ${list}, others, ${SUMS_OF_SUMS} FROM marked GROUP BY bucket, ${list}, others`;
}

const groupRefs = ({ groupBy }: SpendQuery) => groupBy.map((_, index) => sql.ref(`g${index}`));

/** All sorts ascend, so that a page starts after a row in one comparison. */
function sortKey(sort: SpendSort): RawBuilder<unknown> {
  const measure = sql`${sql.ref(sort.replace('-', ''))}::numeric`;
  return sort.startsWith('-') ? sql`-(${measure})` : measure;
}

function isAfterSorted(query: SpendQuery, after: readonly string[]): RawBuilder<unknown> {
  const bucketed = query.bucketEdges.length > 0;
  const order = [
    ...(bucketed ? [sql.ref('bucket')] : []),
    sql.ref('others'),
    sql.ref('sort_key'),
    ...groupRefs(query),
  ];
  const types = [...(bucketed ? [sql`timestamptz`] : []), sql`integer`, sql`numeric`];
  const start = after.map((part, index) => sql`${part}::${types[index] ?? sql`text`}`);
  return sql`(${sql.join(order)}) > (${sql.join(start)})`;
}

function isAfter(query: SpendQuery, after: readonly string[], bucketed: boolean): RawBuilder<unknown> {
  const order = [
    ...(bucketed ? [sql.ref('bucket')] : []),
    ...query.groupBy.map((_, index) => sql.ref(`g${index}`)),
  ];
  const start = after.map((part, index) =>
    bucketed && index === 0 ? sql`${part}::timestamptz` : sql`${part}::text`,
  );
  return sql`(${sql.join(order)}) > (${sql.join(start)})`;
}

function sources(
  query: SpendQuery,
  after: readonly string[] | undefined,
  since: SpendSources,
): RawBuilder<unknown>[] {
  return [
    ...sumsRead(query, fromPage(query, after), since).map(([table, part]) => fromSums(query, table, part)),
    ...eventRanges(query, after).map((part) => fromEvents(query, part)),
    ...(since.archived ? [since.archived] : []),
  ];
}

/** The parts of its range of which a page of a query reads single attempts. */
export function eventRanges(query: SpendQuery, after: readonly string[] | undefined): readonly Range[] {
  return split(query, fromPage(query, after), NEVER).events;
}

/** The tables of sums that a query reads, with the parts of its range. */
export function sumsRead(query: SpendQuery, range: Range, since: SumsSince): [SumsTable, Range][] {
  const source = sumsSource(query, since);
  const { days, hours } = split(query, range, source.since);
  return [
    ...days.map((part): [SumsTable, Range] => [source.days, part]),
    ...hours.flatMap((part) => hoursIn(part, source)),
  ];
}

/** The hours of a range, by the table that has them. */
function hoursIn({ from, to }: Range, { hours, since }: SumsSource): [SumsTable, Range][] {
  const at = since < from ? from : since > to ? to : since;
  const parts: [SumsTable, Range][] = [
    [HOURS, { from, to: at }],
    [hours, { from: at, to }],
  ];
  return parts.filter(([, part]) => part.from < part.to);
}

/** The whole days and hours of a range that are read from sums, and the rest. */
function split(
  query: SpendQuery,
  range: Range,
  daysSince: Date,
): Readonly<Record<'days' | 'hours' | 'events', readonly Range[]>> {
  const hours = hasSums(query, HOUR_MS) ? wholes(range, HOUR_MS) : undefined;
  if (!hours) return { days: [], hours: [], events: [range] };
  const events = restOf(range, hours);
  const from = hours.from > daysSince ? hours.from : daysSince;
  const days = hasSums(query, DAY_MS) ? wholes({ from, to: hours.to }, DAY_MS) : undefined;
  return days ? { days: [days], hours: restOf(hours, days), events } : { days: [], hours: [hours], events };
}

const NEVER = new Date(8.64e15);

/** What a range has before and after a part of it. */
function restOf(range: Range, part: Range): Range[] {
  const ends = [
    { from: range.from, to: part.from },
    { from: part.to, to: range.to },
  ];
  return ends.filter(({ from, to }) => from < to);
}

/** From when on a query reads single attempts, which are dropped after the retention period; undefined if it reads none. */
export function eventsReadFrom(query: SpendQuery): Date | undefined {
  return split(query, query.filter, NEVER).events[0]?.from;
}

/** Skips the time buckets before the page's first one. */
function fromPage({ filter, bucketEdges }: SpendQuery, after: readonly string[] | undefined): Range {
  const bucket = bucketEdges.length > 0 ? after?.[0] : undefined;
  const isLater = bucket !== undefined && Date.parse(bucket) > filter.from.getTime();
  return { from: isLater ? new Date(bucket) : filter.from, to: filter.to };
}

/**
 * Whether sums by hours or days have what the query needs: no labels or other facts of single attempts, and no time bucket that starts
 * within one of them.
 */
function hasSums({ filter, groupBy, bucketEdges }: SpendQuery, lengthMs: number): boolean {
  const inside = bucketEdges.filter((edge) => edge > filter.from && edge < filter.to);
  return (
    !groupBy.some((dimension) => isLabel(dimension) || dimension in OF_EVENTS) &&
    (filter.labels ?? []).length === 0 &&
    inside.every((edge) => edge.getTime() % lengthMs === 0)
  );
}

/** The whole hours or days (UTC) of a range; undefined: there is none. */
function wholes({ from, to }: Range, lengthMs: number): Range | undefined {
  const first = Math.ceil(from.getTime() / lengthMs) * lengthMs;
  const end = Math.floor(to.getTime() / lengthMs) * lengthMs;
  return first < end ? { from: new Date(first), to: new Date(end) } : undefined;
}

function fromSums(query: SpendQuery, { name, unit }: SumsTable, range: Range): RawBuilder<unknown> {
  return sql`
    SELECT ${columns(query, sql.ref(unit), (dimension) => sql.ref(COLUMNS[dimension] ?? dimension))},
      ${sql.ref(distinguishesModels(query) ? 'model_requests' : 'requests')} AS requests, attempts,
      estimated AS estimated_requests, errors, ${sql.join(TOKENS.map((token) => sql.ref(token)))},
      cost_nano_usd AS cost
    FROM ${sql.table(name)}
    WHERE ${sql.join(matchesSums(name, unit, { ...query.filter, ...range }), sql` AND `)}`;
}

function fromEvents(query: SpendQuery, range: Range): RawBuilder<unknown> {
  return sql`
    SELECT ${columns(query, sql.ref('admitted_at'), eventValue)},
      ${eventMeasure(distinguishesModels(query) ? 'model_requests' : 'requests')} AS requests,
      ${eventMeasure('attempts')} AS attempts, ${eventMeasure('estimated')} AS estimated_requests,
      ${eventMeasure('errors')} AS errors, ${sql.join(TOKENS.map((name) => sql.ref(name)))},
      cost_nano_usd AS cost
    FROM usage_events
    WHERE ${sql.join(matches('usage_events', { ...query.filter, ...range }), sql` AND `)}`;
}

/** Sums of attempts that are archived: a JSON array of objects, by the start of a bucket (`edge`) and the values of the group (`v0` and so on). */
export function fromArchived(query: SpendQuery, sums: string): RawBuilder<unknown> {
  const counts = ['requests', 'attempts', 'estimated_requests', 'errors', ...TOKENS];
  const texts = [...query.groupBy.map((_, index) => `v${index}`), 'model_requested', 'policy_id'];
  const typed = (names: readonly string[], type: string) => names.map((name) => `"${name}" ${type}`);
  // Named as the ledger's table, which the expression of a profile reads.
  const members = [...typed(texts, 'text'), ...typed(counts, 'bigint'), 'cost numeric', 'edge timestamptz'];
  const value = (dimension: SpendDimension, index: number) =>
    dimension === 'profile' ? eventValue(dimension) : sql.ref(`v${index}`);
  return sql`
    SELECT ${columns(query, sql.ref('edge'), value)}, ${sql.join(counts.map((name) => sql.ref(name)))}, cost
    FROM jsonb_to_recordset(${sums}::jsonb) AS usage_events (${sql.raw(members.join(', '))})`;
}

function columns(
  query: SpendQuery,
  at: RawBuilder<unknown>,
  value: (dimension: SpendDimension, index: number) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  const bucket = query.bucketEdges.length > 0 ? bucketOf(query.bucketEdges, at) : sql`NULL::timestamptz`;
  const values = query.groupBy.map(
    (dimension, index) =>
      sql`coalesce('=' || (${value(dimension, index)}), '') COLLATE "C" AS ${sql.ref(`g${index}`)}`,
  );
  return sql.join([sql`${bucket} AS bucket`, ...values]);
}

/** The edges are computed in JavaScript, so that Postgres needs no time zone data of the same version. */
function bucketOf(edges: readonly Date[], at: RawBuilder<unknown>): RawBuilder<unknown> {
  const list = edges.map((edge) => edge.toISOString());
  return sql`(${list}::timestamptz[])[width_bucket(${at}::timestamptz, ${list}::timestamptz[])]`;
}

/** Whether the query distinguishes models or providers. A request then counts once for each model that it was tried on. */
export function distinguishesModels({ filter, groupBy }: SpendQuery): boolean {
  return (
    filter.model !== undefined ||
    filter.provider !== undefined ||
    groupBy.some((dimension) => dimension === 'model' || dimension === 'provider')
  );
}

function eventValue(dimension: SpendDimension): RawBuilder<unknown> {
  if (isLabel(dimension)) return sql`attribution -> 'labels' ->> ${dimension.slice(LABEL.length)}::text`;
  const ofEvents = OF_EVENTS[dimension];
  if (ofEvents) return ofEvents;
  const column = COLUMNS[dimension];
  return column === undefined ? sql`attribution ->> ${sql.lit(dimension)}` : sql.ref(column);
}

function isLabel(dimension: SpendDimension): dimension is `label:${string}` {
  return dimension.startsWith(LABEL);
}
