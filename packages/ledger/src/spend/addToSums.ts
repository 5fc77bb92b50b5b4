import { createHash } from 'node:crypto';
import {
  BIGINT,
  BYTEA,
  binaryArray,
  type ElementType,
  SMALLINT,
  TEXT,
  TIMESTAMPTZ,
  type Tx,
  type UsageEvents,
} from '@weighbridge/database';
import { type Insertable, sql } from 'kysely';
import { boundAttributions, MAX_COMBINATIONS, type Values } from './attributionBound.ts';
import { recordChangedDays } from './changedDays.ts';
import {
  addToExisting,
  CALLERS_DIMENSIONS,
  columnsOf,
  DAYS,
  FAILED,
  groupText,
  HOURS,
  KEEPS_SUMS,
  SUM_MEASURES,
  type SumDimension,
  type SumMeasure,
  type SumsTable,
  TOTAL_DAYS,
  TOTAL_HOURS,
} from './usageSums.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** A UUIDv7 starts with its time in milliseconds. */
const ID_TIME_DIGITS = 12;

type EventRow = Omit<Insertable<UsageEvents>, 'bucket_keys'>;
type Group = Readonly<Record<SumDimension, string | null>>;

/** Counts and tokens of one transaction fit a number exactly; money may not. */
type Measures = Record<Exclude<SumMeasure, 'cost_nano_usd'>, number> & { cost_nano_usd: bigint };

interface Sum {
  /** When its hour or day starts, in Unix milliseconds. */
  readonly at: number;
  readonly shard: number;
  readonly group: Group;
  /** `groupText` of it. */
  readonly text: string;
  readonly measures: Measures;
}

/**
 * Adds events to the sums by hour and day of their admission. Only for rows that the same transaction inserted, or they would count
 * twice. Locks the keys' days if callers' values are new, then the rows of each table, always in the order of their primary keys.
 */
export async function addToSums(
  tx: Tx,
  newEvents: readonly { readonly row: EventRow }[],
  maxCombinations = MAX_COMBINATIONS,
): Promise<void> {
  const sums = sumsOf(newEvents);
  if (sums.length === 0) return;
  const bounded = await withBoundedValues(tx, sums, maxCombinations);
  const sha256Of = createDigests();
  await addRows(tx, HOURS, bounded, sha256Of);
  await addRows(tx, DAYS, addUp(bounded, DAY_MS), sha256Of);
  const totals = addUp(
    sums.map((sum) => withValues(sum, NO_VALUES)),
    HOUR_MS,
  );
  await addRows(tx, TOTAL_HOURS, totals, sha256Of);
  await addRows(tx, TOTAL_DAYS, addUp(totals, DAY_MS), sha256Of, recordChangedDays(daysOf(newEvents)));
}

/** A group has the same digest in its hours and days. */
function createDigests(): (text: string) => string {
  const known = new Map<string, string>();
  return (text) => {
    const digest = known.get(text) ?? createHash('sha256').update(text).digest('hex');
    known.set(text, digest);
    return digest;
  };
}

/** The sums of events by hour, shard and group. */
function sumsOf(newEvents: readonly { readonly row: EventRow }[]): Sum[] {
  const sums = new Map<string, Sum>();
  // Most events share their group with another one, so it is computed once. Events of one caller share the attribution text.
  const known = new Map<string, Map<string, Sum>>();
  for (const { row } of newEvents) {
    const hour = startOf(HOUR_MS, new Date(row.admitted_at).getTime());
    const attribution = attributionText(row);
    const groups = known.get(attribution) ?? new Map<string, Sum>();
    known.set(attribution, groups);
    // No text of the ledger contains a NUL.
    const key = `${hour}/${row.shard}/${row.key_id}\0${row.model}\0${row.policy_id}\0${row.principal_id}\0${row.team_id ?? ''}`;
    // Corrections have no shard.
    const sum =
      groups.get(key) ?? sumIn(sums, { at: hour, shard: row.shard ?? 0, ...groupOf(row, attribution) });
    groups.set(key, sum);
    addEvent(sum.measures, row);
  }
  return [...sums.values()];
}

/** The same sums, with the values that the keys' days have room for. */
async function withBoundedValues(
  tx: Tx,
  sums: readonly Sum[],
  maxCombinations: number,
): Promise<readonly Sum[]> {
  const attributions = sums.map(({ at, group }) => ({
    day: startOf(DAY_MS, at),
    keyId: group.key_id ?? '',
    values: group,
  }));
  const bounded = await boundAttributions(tx, attributions, maxCombinations);
  const changed = sums.map((sum, index) => withValues(sum, bounded[index] ?? sum.group));
  return changed.every((sum, index) => sum === sums[index]) ? sums : addUp(changed, HOUR_MS);
}

const NO_VALUES: Values = {
  user: null,
  team: null,
  project: null,
  env: null,
  workload_type: null,
  namespace: null,
  workload: null,
};

function withValues(sum: Sum, values: Values): Sum {
  const isSame = CALLERS_DIMENSIONS.every((name) => sum.group[name] === values[name]);
  return isSame ? sum : { ...sum, ...named({ ...sum.group, ...values }) };
}

/** The sums of the same group and shard in one hour or day, added up. */
function addUp(parts: readonly Sum[], unitMs: number): Sum[] {
  const sums = new Map<string, Sum>();
  for (const { at, shard, group, text, measures } of parts) {
    const sum = sumIn(sums, { at: startOf(unitMs, at), shard, group, text });
    for (const name of SUM_MEASURES) {
      if (name === 'cost_nano_usd') sum.measures.cost_nano_usd += measures.cost_nano_usd;
      else sum.measures[name] += measures[name];
    }
  }
  return [...sums.values()];
}

function sumIn(sums: Map<string, Sum>, of: Omit<Sum, 'measures'>): Sum {
  const key = `${of.at}/${of.shard}/${of.text}`;
  const sum = sums.get(key) ?? { ...of, measures: noMeasures() };
  sums.set(key, sum);
  return sum;
}

async function addRows(
  tx: Tx,
  table: SumsTable,
  sums: readonly Sum[],
  sha256Of: (text: string) => string,
  beside = sql``,
): Promise<void> {
  const list = <V extends string | number | bigint>(
    type: ElementType<V>,
    read: (sum: Sum) => V | null | undefined,
  ) => sql`${binaryArray(type, sums, read)}::${sql.raw(type.name)}[]`;
  const columns = columnsOf(table);
  await sql`
    ${beside}
    INSERT INTO ${sql.table(table.name)} (${columns})
    SELECT ${columns}
    FROM unnest(${sql.join([
      list(TIMESTAMPTZ, ({ at }) => at),
      list(BYTEA, ({ text }) => sha256Of(text)),
      list(SMALLINT, ({ shard }) => shard),
      ...table.dimensions.map((name) => list(TEXT, ({ group }) => group[name])),
      ...SUM_MEASURES.map((name) => list(BIGINT, ({ measures }) => BigInt(measures[name]))),
    ])}) AS counted (${columns})
    CROSS JOIN ${KEEPS_SUMS} AS announced
    ORDER BY ${sql.ref(table.unit)}, group_sha256, shard
    ${addToExisting(table)}`.execute(tx);
}

/** The days of admission and of ids: the ledger is compared by both. */
function daysOf(events: readonly { readonly row: EventRow }[]): Date[] {
  const days = new Set<number>();
  for (const { row } of events) {
    days.add(startOf(DAY_MS, new Date(row.admitted_at).getTime()));
    days.add(startOf(DAY_MS, Number.parseInt(row.event_id.replaceAll('-', '').slice(0, ID_TIME_DIGITS), 16)));
  }
  return [...days].map((day) => new Date(day));
}

function startOf(unitMs: number, at: number): number {
  return Math.floor(at / unitMs) * unitMs;
}

/** The column accepts text or a JSON value. */
function attributionText({ attribution }: EventRow): string {
  return typeof attribution === 'string' ? attribution : JSON.stringify(attribution);
}

function groupOf(row: EventRow, attributionText: string): Pick<Sum, 'group' | 'text'> {
  const attribution = JSON.parse(attributionText) as Record<string, string | undefined>;
  const { principal_id, key_id, policy_id, model } = row;
  return named({
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
  });
}

const named = (group: Group) => ({ group, text: groupText(group) });

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

function addEvent(sum: Measures, row: EventRow): void {
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
