import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';
import { boundAttributions, type Values } from '../spend/attributionBound.ts';
import { recordChangedDays } from '../spend/changedDays.ts';
import {
  addToExisting,
  CALLERS_DIMENSIONS,
  columnsOf,
  groupSha256,
  KEEPS_SUMS,
  SUM_MEASURES,
  SUMS_TABLES,
  type SumsTable,
  sumOfMeasure,
} from '../spend/usageSums.ts';

/** Some differences of a table: those of its hours or days from one to another, both inclusive. */
export interface DifferingPart {
  readonly table: SumsTable;
  readonly from: Date;
  readonly to: Date;
  /** The sums have a group of which the ledger has no event. */
  readonly hasUnfounded: boolean;
}

const ROWS_AT_A_TIME = 2_000;
const DAY_MS = 86_400_000;

/** What `compareSums` found to differ, in parts of at most 2,000 rows unless one hour or day has more. */
export async function differingParts(db: Database): Promise<DifferingPart[]> {
  const { rows } = await sql<{ source: string; at: Date; count: number; unfounded: boolean }>`
    SELECT source, at, count(*)::integer AS count, bool_or(is_unfounded) AS unfounded
    FROM sum_differences GROUP BY source, at ORDER BY at`.execute(db);
  return SUMS_TABLES.flatMap((table) => {
    const parts: (DifferingPart & { readonly count: number })[] = [];
    for (const { source, at, count, unfounded } of rows) {
      if (source !== table.name) continue;
      const last = parts.at(-1);
      const joins = last !== undefined && last.count + count <= ROWS_AT_A_TIME;
      const part = joins ? last : { table, from: at, count: 0, hasUnfounded: false };
      const joined = {
        ...part,
        to: at,
        count: part.count + count,
        hasUnfounded: part.hasUnfounded || unfounded,
      };
      parts.splice(joins ? -1 : parts.length, 1, joined);
    }
    return parts;
  });
}

/** Adds the differences to the sums. They commute with usage that is written meanwhile. */
export async function applyPart(
  tx: Tx,
  part: DifferingPart,
  maxCombinations: number | undefined,
): Promise<void> {
  const { table, hasUnfounded } = part;
  if (table.dimensions.includes('user')) await boundNewGroups(tx, part, maxCombinations);
  const columns = columnsOf(table);
  const digest = sql`coalesce(group_sha256, ${groupSha256(table)})`;
  const dimensions = table.dimensions.map((name) => sql.ref(name));
  await sql`
    ${recordChangedDays(daysOf(part))}
    INSERT INTO ${sql.table(table.name)} (${columns})
    SELECT at, sha256, shard, ${sql.join(dimensions)}, ${sql.join(SUM_MEASURES.map(sumOfMeasure))}
    FROM (
      SELECT *, ${digest} AS sha256 FROM sum_differences WHERE ${isIn(part)}
    ) AS difference
    CROSS JOIN ${KEEPS_SUMS} AS announced
    GROUP BY at, sha256, shard, ${sql.join(dimensions)}
    ORDER BY at, sha256, shard
    ${addToExisting(table)}`.execute(tx);
  // Delete rows without any event, unless one was added since: a breakdown would show their groups.
  if (hasUnfounded) await deleteUnfounded(tx, part);
}

type NewGroup = { readonly n: string; readonly at: Date; readonly key_id: string } & Values;

/** Of groups without a row, only as many get one as their days have room for. */
async function boundNewGroups(
  tx: Tx,
  part: DifferingPart,
  maxCombinations: number | undefined,
): Promise<void> {
  let after: Pick<NewGroup, 'key_id' | 'n'> = { key_id: '', n: '0' };
  for (;;) {
    // By key, so that days are locked in their order: more rows than these are of one day.
    const { rows } = await sql<NewGroup>`
      SELECT n::text, at, key_id, ${VALUES} FROM sum_differences
      WHERE ${isIn(part)} AND NOT has_row AND coalesce(${VALUES}) IS NOT NULL
        AND (key_id, n) > (${after.key_id}, ${after.n}::bigint)
      ORDER BY key_id, n LIMIT ${ROWS_AT_A_TIME}`.execute(tx);
    const bounded = await boundAttributions(
      tx,
      rows.map((row) => ({
        day: dayOf(row.at),
        keyId: row.key_id,
        values: row,
      })),
      maxCombinations,
    );
    const changed = rows.flatMap(({ n, ...row }, index) => {
      const values = bounded[index] ?? row;
      return CALLERS_DIMENSIONS.every((name) => values[name] === row[name]) ? [] : [{ n, values }];
    });
    await setValues(tx, changed);
    const last = rows.at(-1);
    if (!last || rows.length < ROWS_AT_A_TIME) return;
    after = last;
  }
}

const VALUES = sql.join(CALLERS_DIMENSIONS.map((name) => sql.ref(name)));

async function setValues(
  tx: Tx,
  changed: readonly { readonly n: string; readonly values: Values }[],
): Promise<void> {
  if (changed.length === 0) return;
  const lists = CALLERS_DIMENSIONS.map(
    (name) => sql`${arrayLiteral(changed.map(({ values }) => values[name]))}::text[]`,
  );
  const set = CALLERS_DIMENSIONS.map((name) => sql`${sql.ref(name)} = bounded.${sql.ref(name)}`);
  await sql`
    UPDATE sum_differences SET group_sha256 = NULL, ${sql.join(set)}
    FROM unnest(${arrayLiteral(changed.map(({ n }) => n))}::bigint[], ${sql.join(lists)}) AS bounded (n, ${VALUES})
    WHERE sum_differences.n = bounded.n`.execute(tx);
}

async function deleteUnfounded(tx: Tx, part: DifferingPart): Promise<void> {
  const isZero = SUM_MEASURES.map((name) => sql`${sql.ref(`sums.${name}`)} = 0`);
  await sql`
    DELETE FROM ${sql.table(part.table.name)} AS sums USING sum_differences AS unfounded
    WHERE unfounded.is_unfounded AND ${isIn(part, 'unfounded')}
      AND ${sql.ref(`sums.${part.table.unit}`)} = unfounded.at
      AND sums.group_sha256 = unfounded.group_sha256 AND sums.shard = unfounded.shard
      AND ${sql.join(isZero, sql` AND `)}`.execute(tx);
}

function daysOf({ from, to }: DifferingPart): Date[] {
  const count = (dayOf(to) - dayOf(from)) / DAY_MS + 1;
  return Array.from({ length: count }, (_, n) => new Date(dayOf(from) + n * DAY_MS));
}

/** When the day of a time starts, in Unix milliseconds. */
function dayOf(at: Date): number {
  return Math.floor(at.getTime() / DAY_MS) * DAY_MS;
}

function isIn({ table, from, to }: DifferingPart, alias = 'sum_differences'): RawBuilder<unknown> {
  const at = sql.ref(`${alias}.at`);
  return sql`${sql.ref(`${alias}.source`)} = ${table.name} AND ${at} >= ${from} AND ${at} <= ${to}`;
}
