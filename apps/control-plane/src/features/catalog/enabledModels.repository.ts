import type { Database } from '@weighbridge/database';

/** A model of the catalog, as far as its names go. */
export interface NamedModel {
  readonly id: string;
  readonly other_names: readonly string[];
  readonly own: boolean;
}

/** The first models of the catalog that are enabled, with a price or without, by id. With `ids`, only of those. */
export async function findEnabledModels(
  db: Database,
  limit: number,
  ids?: readonly string[],
): Promise<NamedModel[]> {
  return await db
    .selectFrom('models')
    .select(['id', 'other_names', 'own'])
    .where('deleted_at', 'is', null)
    .where('disabled', '=', false)
    .$if(ids !== undefined, (query) => query.where('id', 'in', ids ?? []))
    .orderBy('id')
    .limit(limit)
    .execute();
}
