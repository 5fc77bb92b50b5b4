import type { Database } from '@weighbridge/database';

/** A model of the catalog, as far as its names go. */
export interface NamedModel {
  readonly id: string;
  readonly other_names: readonly string[];
  readonly own: boolean;
}

/** The first models of the catalog that are enabled, with a price or without, by id. */
export async function findEnabledModels(db: Database, limit: number): Promise<NamedModel[]> {
  return await db
    .selectFrom('models')
    .select(['id', 'other_names', 'own'])
    .where('deleted_at', 'is', null)
    .where('disabled', '=', false)
    .orderBy('id')
    .limit(limit)
    .execute();
}
