import type { Tx } from '@weighbridge/database';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { foldedSql } from '../spend/foldedSql.ts';
import {
  DAYS,
  eventDimension,
  eventMeasure,
  groupSha256,
  HOURS,
  SUM_DIMENSIONS,
  SUM_MEASURES,
  SUMS_TABLES,
  type SumsTable,
  sumOfMeasure,
  TOTAL_DAYS,
  TOTAL_HOURS,
} from '../spend/usageSums.ts';

/** Days of admission (UTC), `to` exclusive; without an end, as far as there are any. */
export interface DayRange {
  readonly from?: Date;
  readonly to?: Date;
}

const DAY_MS = 86_400_000;

/**
 * Compares the sums by hour and day with the ledger's rows, of all days or of those in a range, in this transaction's snapshot. What differs is in the temporary table
 * `sum_differences` then: the ledger's sum minus that of the table.
 *
 * Which values count under `(other)` is history that `usage_attributions` has, so both sides are compared under the values that each
 * row counts under now. Totals have no such values.
 */
export async function compareSums(tx: Tx, range: DayRange = {}): Promise<void> {
  await sql`
    CREATE TEMPORARY TABLE sum_differences (
      n bigint GENERATED ALWAYS AS IDENTITY, source text NOT NULL, at timestamptz NOT NULL, group_sha256 bytea,
      shard smallint NOT NULL, ${typed(SUM_DIMENSIONS, sql`text`)}, ${typed(SUM_MEASURES, sql`bigint NOT NULL`)},
      has_row boolean NOT NULL, is_unfounded boolean NOT NULL)`.execute(tx);
  await sql`CREATE TEMPORARY TABLE ledger_sums AS ${ledgerSums(range)}`.execute(tx);
  await sql`ANALYZE ledger_sums`.execute(tx);
  for (const table of SUMS_TABLES) await compareTable(tx, table, range);
  await sql`DROP TABLE ledger_sums`.execute(tx);
  await sql`CREATE INDEX ON sum_differences (source, at)`.execute(tx);
  await sql`CREATE INDEX ON sum_differences (n)`.execute(tx);
}

/** The ledger's rows by hour, shard and group. Their costs are numerics: their sum may be bounded only in the end. */
function ledgerSums(range: DayRange): RawBuilder<unknown> {
  const each = sql`
    SELECT date_trunc('hour', admitted_at, 'UTC') AS hour, coalesce(shard, 0) AS shard,
      ${named(SUM_DIMENSIONS, eventDimension)}, ${named(SUM_MEASURES, eventMeasure)}
    FROM usage_events
    WHERE ${isCovered(sql`admitted_at`, range)} AND ${idsFrom(range)}`;
  const grouped = (rows: RawBuilder<unknown>) => sql`
    SELECT hour, shard, ${refs(SUM_DIMENSIONS)}, ${named(SUM_MEASURES, (name) => sql`sum(${sql.ref(name)})`)}
    FROM (${rows}) AS part
    GROUP BY hour, shard, ${refs(SUM_DIMENSIONS)}`;
  return grouped(foldedSql(grouped(each), ['hour', 'shard', ...SUM_MEASURES]));
}

async function compareTable(tx: Tx, table: SumsTable, range: DayRange): Promise<void> {
  const ledger = (name: string) => sql.ref(`ledger.${name}`);
  const stored = (name: string) => sql.ref(`stored.${name}`);
  await sql`
    INSERT INTO sum_differences (source, at, group_sha256, shard, ${refs([...table.dimensions, ...SUM_MEASURES])},
      has_row, is_unfounded)
    SELECT ${table.name}, at, group_sha256, shard,
      ${named(table.dimensions, (name) => sql`coalesce(${ledger(name)}, ${stored(name)})`)},
      ${named(SUM_MEASURES, (name) => sql`coalesce(${ledger(name)}, 0) - coalesce(${stored(name)}, 0)`)},
      stored.attempts IS NOT NULL, ledger.attempts IS NULL
    FROM (${expectedSums(table)}) AS ledger
    FULL JOIN (${storedSums(table, range)}) AS stored USING (at, group_sha256, shard)
    WHERE (${sql.join(SUM_MEASURES.map(ledger))}) IS DISTINCT FROM (${sql.join(SUM_MEASURES.map(stored))})`.execute(
    tx,
  );
}

function expectedSums(table: SumsTable): RawBuilder<unknown> {
  return sql`
    SELECT *, ${groupSha256(table)} AS group_sha256
    FROM (
      SELECT date_trunc(${table.unit}, hour, 'UTC') AS at, shard, ${refs(table.dimensions)},
        ${named(SUM_MEASURES, sumOfMeasure)}
      FROM ledger_sums
      WHERE hour >= ${knownSince(table)}
      GROUP BY 1, shard, ${refs(table.dimensions)}
    ) AS grouped`;
}

/** A table's rows under the values that they count under now: an earlier release writes those beyond the bound too. */
function storedSums(table: SumsTable, range: DayRange): RawBuilder<unknown> {
  const at = sql.ref(table.unit);
  const rows = sql`
    SELECT *, ${at} AS at FROM ${sql.table(table.name)} WHERE ${isCovered(at, range)} AND ${at} >= ${knownSince(table)}`;
  if (table === TOTAL_HOURS || table === TOTAL_DAYS) return rows;
  const withHour = table === HOURS ? rows : sql`SELECT *, day AS hour FROM (${rows}) AS of_days`;
  return sql`
    SELECT at, shard, group_sha256, ${refs(table.dimensions)}, ${named(SUM_MEASURES, sumOfMeasure)}
    FROM (
      SELECT at, shard, ${refs([...table.dimensions, ...SUM_MEASURES])},
        CASE WHEN is_folded THEN ${groupSha256(table)} ELSE group_sha256 END AS group_sha256
      FROM (${foldedSql(withHour, ['at', 'shard', 'group_sha256', ...SUM_MEASURES])}) AS counted
    ) AS part
    GROUP BY at, shard, group_sha256, ${refs(table.dimensions)}`;
}

/** Only the hours that still have rows: those of dropped months have no rows to compare with. */
function isCovered(at: RawBuilder<unknown>, { from, to }: DayRange): RawBuilder<SqlBool> {
  return sql`${at} >= (SELECT coalesce(dropped_before, '-infinity') FROM ledger_floor)
    AND ${from ? sql`${at} >= ${from}` : sql`true`} AND ${to ? sql`${at} < ${to}` : sql`true`}`;
}

/** An attempt's id is newer than its admission, so earlier partitions are skipped. The day allows for clocks that were set back. */
function idsFrom({ from }: DayRange): RawBuilder<SqlBool> {
  return from ? sql`event_id >= uuid_from(${new Date(from.getTime() - DAY_MS)})` : sql`true`;
}

/** From when on each change of the hours was one of this table too. */
function knownSince(table: SumsTable): RawBuilder<unknown> {
  if (table === HOURS) return sql`'-infinity'::timestamptz`;
  return table === DAYS
    ? sql`(SELECT since FROM usage_by_day_since)`
    : sql`(SELECT totals_since FROM usage_by_day_since)`;
}

function refs(names: readonly string[]): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql.ref(name)));
}

function named<T extends string>(
  names: readonly T[],
  make: (name: T) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql`${make(name)} AS ${sql.ref(name)}`));
}

function typed(names: readonly string[], type: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql`${sql.ref(name)} ${type}`));
}
