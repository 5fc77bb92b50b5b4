import type { Database } from '@weighbridge/database';
import type { SpendRow as LedgerSpendRow, SpendDimension } from '@weighbridge/ledger';
import { sql } from 'kysely';

/** The dimensions whose values are ids, and where their names are. Names of deleted resources stay. */
const TABLES = { key: 'keys', policy: 'policies', connector: 'connectors' } as const;
type Named = keyof typeof TABLES;

export function isNamed(dimension: SpendDimension): dimension is Named {
  return dimension in TABLES;
}

/** The names of the ids in some rows, by dimension and id. */
export type SpendNames = ReadonlyMap<SpendDimension, ReadonlyMap<string, string>>;

export async function readNames(
  db: Database,
  groupBy: readonly SpendDimension[],
  rows: readonly Pick<LedgerSpendRow, 'group'>[],
): Promise<SpendNames> {
  const names = new Map<SpendDimension, ReadonlyMap<string, string>>();
  for (const [index, dimension] of groupBy.entries()) {
    if (!isNamed(dimension)) continue;
    const ids = [...new Set(rows.flatMap(({ group }) => group[index] ?? []))];
    const found = await sql<{ id: string; name: string }>`
      SELECT id, name FROM ${sql.table(TABLES[dimension])} WHERE id = ANY (${ids}::text[])`.execute(db);
    names.set(dimension, new Map(found.rows.map(({ id, name }) => [id, name])));
  }
  return names;
}

/** The names beside a row's ids; null for an id without one. */
export function namesOf(
  names: SpendNames,
  groupBy: readonly SpendDimension[],
  { group }: Pick<LedgerSpendRow, 'group'>,
): Record<string, string | null> {
  return Object.fromEntries(
    groupBy.flatMap((dimension, index) =>
      isNamed(dimension) ? [[dimension, names.get(dimension)?.get(group[index] ?? '') ?? null]] : [],
    ),
  );
}
