import type { Database } from '@weighbridge/database';
import type { SpendRow as LedgerSpendRow, SpendDimension } from '@weighbridge/ledger';
import { isNamedResource, type NamedResource, readResourceNames } from '../../shared/resourceNames.ts';

/** The dimensions whose values are ids. */
export function isNamed(dimension: SpendDimension): dimension is NamedResource {
  return isNamedResource(dimension);
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
    const ids = rows.flatMap(({ group }) => group[index] ?? []);
    names.set(dimension, await readResourceNames(db, dimension, ids));
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
