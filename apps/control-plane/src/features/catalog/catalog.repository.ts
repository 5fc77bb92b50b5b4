import { arrayLiteral, type Database, type ModelPrices, type Models, type Tx } from '@weighbridge/database';
import { type Price, type PriceRow, priceDocument } from '@weighbridge/domain';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';
import { isOfModel, storedPrice } from '../../shared/storedPrice.ts';
import type { ModelFacts, ModelNameFacts, ShippedJson } from './catalog.ts';

export type ModelRow = Selectable<Models>;
/** A version of a model's price. */
export type ModelPriceRow = Pick<Selectable<ModelPrices>, (typeof VERSION)[number]> & PriceRow;

const VERSION = ['model_id', 'version', 'origin', 'reviewed', 'ended', 'created_at'] as const;

/** All versions of the prices of models. */
function priceVersions(db: Database) {
  return db
    .selectFrom('model_prices')
    .select(VERSION.map((column) => `model_prices.${column}` as const))
    .select(storedPrice('model_prices').as('price'));
}

export interface CatalogFilter {
  readonly provider: string | undefined;
  readonly nameContains: string | undefined;
  readonly priced: boolean | undefined;
  readonly disabled: boolean | undefined;
}

export async function findModel(db: Database, id: string): Promise<ModelRow | undefined> {
  return await db
    .selectFrom('models')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst();
}

/** The providers of the catalog, and of the connectors. */
export async function findProviders(db: Database): Promise<string[]> {
  const rows = await db
    .selectFrom('models')
    .select('provider')
    .union(db.selectFrom('connectors').select('provider'))
    .execute();
  return rows.map(({ provider }) => provider);
}

export async function findModelsById(db: Database, ids: readonly string[]): Promise<ModelRow[]> {
  if (ids.length === 0) return [];
  return await db
    .selectFrom('models')
    .selectAll()
    .where('id', 'in', ids)
    .where('deleted_at', 'is', null)
    .execute();
}

/** The ids of all models, disabled ones included. */
export async function findModelIds(db: Database): Promise<string[]> {
  const rows = await db.selectFrom('models').select('id').where('deleted_at', 'is', null).execute();
  return rows.map(({ id }) => id);
}

/** Reads a model, deleted or not, and locks it and its price until the transaction ends. */
export async function lockModel(tx: Tx, id: string): Promise<ModelRow | undefined> {
  return await tx.selectFrom('models').selectAll().where('id', '=', id).forUpdate().executeTakeFirst();
}

/** Reads and locks all models, deleted or not. */
export async function lockModels(tx: Tx): Promise<ModelRow[]> {
  return await tx.selectFrom('models').selectAll().orderBy('id').forUpdate().execute();
}

/** A page of the catalog by model id. */
export async function findModels(
  db: Database,
  { filter, after, limit }: { filter: CatalogFilter; after: string; limit: number },
): Promise<ModelRow[]> {
  const { provider, nameContains, priced, disabled } = filter;
  return await db
    .selectFrom('models')
    .selectAll()
    .where('deleted_at', 'is', null)
    .where('id', '>', after)
    .$if(provider !== undefined, (query) => query.where('provider', '=', provider ?? ''))
    .$if(nameContains !== undefined, (query) => query.where(containsText('id', nameContains ?? '')))
    .$if(disabled !== undefined, (query) => query.where('disabled', '=', disabled ?? false))
    .$if(priced !== undefined, (query) => query.where((row) => row(isPriced, '=', priced ?? true)))
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** The newest price version of each model that has or had a price. */
export async function findNewestPrices(
  db: Database,
  modelIds: readonly string[],
): Promise<Map<string, ModelPriceRow>> {
  if (modelIds.length === 0) return new Map();
  const rows = await priceVersions(db)
    .distinctOn('model_id')
    .where('model_id', 'in', modelIds)
    .orderBy('model_id')
    .orderBy('version', 'desc')
    .execute();
  return new Map(rows.map((row) => [row.model_id, row]));
}

/** The newest price versions of all models that are not deleted, except versions that ended a price. */
export async function findAllNewestPrices(db: Database): Promise<ModelPriceRow[]> {
  return await db
    .selectFrom(
      priceVersions(db)
        .innerJoin('models', 'models.id', 'model_prices.model_id')
        .distinctOn('model_prices.model_id')
        .where('models.deleted_at', 'is', null)
        .orderBy('model_prices.model_id')
        .orderBy('model_prices.version', 'desc')
        .as('newest'),
    )
    .selectAll()
    .where('ended', '=', false)
    .execute();
}

/** A version of a model's price; the newest unless given. */
export async function findPriceVersion(
  db: Database,
  modelId: string,
  version?: number,
): Promise<ModelPriceRow | undefined> {
  return await priceVersions(db)
    .where('model_id', '=', modelId)
    .$if(version !== undefined, (query) => query.where('version', '=', version ?? 0))
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** Who set a price, and when. */
export interface PriceProvenance {
  readonly version: number;
  readonly price_origin: ModelPriceRow['origin'];
  readonly price_created_at: Date;
}

/** A page of the enabled models of some providers that have a price, by model id. With `ids`, only of those. */
export async function findPricedModels(
  db: Database,
  {
    providers,
    ids,
    after = '',
    limit,
  }: {
    readonly providers: readonly string[];
    readonly ids?: readonly string[] | undefined;
    readonly after?: string | undefined;
    readonly limit: number;
  },
): Promise<(ModelRow & PriceRow & PriceProvenance)[]> {
  if (providers.length === 0) return [];
  return await db
    .selectFrom('models')
    .innerJoinLateral(
      () => priceVersions(db).where(isOfModel).orderBy('version', 'desc').limit(1).as('newest'),
      (join) => join.onTrue(),
    )
    .selectAll('models')
    .select(['newest.version', 'newest.origin as price_origin', 'newest.created_at as price_created_at'])
    .select(['newest.ended', 'newest.price'])
    .where('newest.ended', '=', false)
    .where('models.deleted_at', 'is', null)
    .where('models.disabled', '=', false)
    .where('models.provider', 'in', providers)
    .where('models.id', '>', after)
    .$if(ids !== undefined, (query) => query.where('models.id', 'in', ids ?? []))
    .orderBy('models.id')
    .limit(limit)
    .execute();
}

/** A page of the versions of a model's price, newest first. */
export async function findPriceVersions(
  db: Database,
  { modelId, before, limit }: { modelId: string; before: number | undefined; limit: number },
): Promise<ModelPriceRow[]> {
  return await priceVersions(db)
    .where('model_id', '=', modelId)
    .$if(before !== undefined, (query) => query.where('version', '<', before ?? 0))
    .orderBy('version', 'desc')
    .limit(limit)
    .execute();
}

/** The newest price of each model that the release, an operator or an approval set; else the one with which the feed added it. */
export async function findReviewedPrices(tx: Tx): Promise<Map<string, ModelPriceRow>> {
  const rows = await priceVersions(tx)
    .distinctOn('model_id')
    .where((row) => row.or([row('reviewed', '=', true), row('version', '=', 1)]))
    .where('ended', '=', false)
    .orderBy('model_id')
    .orderBy('version', 'desc')
    .execute();
  return new Map(rows.map((row) => [row.model_id, row]));
}

/** Stores the dates of the release's prices, where they changed. */
export async function updateShippedDates(
  tx: Tx,
  dates: readonly { readonly id: string; readonly pricedAt: Date }[],
): Promise<void> {
  if (dates.length === 0) return;
  const ids = arrayLiteral(dates.map(({ id }) => id));
  const times = arrayLiteral(dates.map(({ pricedAt }) => pricedAt.toISOString()));
  await sql`
    UPDATE models SET shipped_priced_at = dated.at
    FROM unnest(${ids}::text[], ${times}::timestamptz[]) AS dated (id, at)
    WHERE models.id = dated.id AND models.shipped_priced_at IS DISTINCT FROM dated.at`.execute(tx);
}

export type NamedModelRow = Pick<ModelRow, 'id' | 'own' | 'other_names'>;

/** Lets no one else add names of models before the transaction ends. */
export async function lockNames(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(hashtext('names of models'))`.execute(tx);
}

/** The other models of the catalog that have one of these as their id, bare name or another name. */
export async function findModelsNamed(
  tx: Tx,
  exceptId: string,
  names: readonly string[],
): Promise<NamedModelRow[]> {
  const wanted = sql`${arrayLiteral(names)}::text[]`;
  return await tx
    .selectFrom('models')
    .select(['id', 'own', 'other_names'])
    .where('id', '<>', exceptId)
    .where('deleted_at', 'is', null)
    .where(
      sql<boolean>`(id = ANY (${wanted}) OR substr(id, length(provider) + 2) = ANY (${wanted}) OR other_names && ${wanted})`,
    )
    .orderBy('id')
    .execute();
}

/** Inserts nothing and returns undefined if the id is taken, also by a concurrent transaction. */
export async function insertModel(
  tx: Tx,
  row: Pick<Insertable<Models>, 'id' | 'provider' | 'origin' | 'disabled' | 'updated_at'>,
  facts: ModelFacts & Partial<ModelNameFacts>,
  shipped: ShippedJson | null,
): Promise<ModelRow | undefined> {
  return await tx
    .insertInto('models')
    .values({ ...row, ...factColumns(facts), shipped: shipped && JSON.stringify(shipped) })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returningAll()
    .executeTakeFirst();
}

/** Inserts models in one statement, and returns the ids of those that were not there. */
export async function insertModels(
  tx: Tx,
  models: readonly {
    readonly row: Parameters<typeof insertModel>[1];
    readonly facts: ModelFacts & Partial<ModelNameFacts>;
    readonly shipped: ShippedJson | null;
  }[],
): Promise<string[]> {
  if (models.length === 0) return [];
  const values = models.map(({ row, facts, shipped }) => ({
    ...row,
    ...factColumns(facts),
    shipped: shipped && JSON.stringify(shipped),
  }));
  const rows = await tx
    .insertInto('models')
    .values(values)
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('id')
    .execute();
  return rows.map(({ id }) => id);
}

export async function updateModel(
  tx: Tx,
  id: string,
  changes: Pick<
    Updateable<Models>,
    'origin' | 'disabled' | 'overridden' | 'deleted_at' | 'updated_at' | 'shipped'
  >,
  facts: Partial<ModelFacts & ModelNameFacts> = {},
): Promise<ModelRow> {
  return await tx
    .updateTable('models')
    .set({ ...changes, ...factColumns(facts) })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Adds the next version. An undefined price ends the price. The caller holds the model's lock. */
export async function insertPriceVersion(
  tx: Tx,
  version: {
    modelId: string;
    origin: ModelPriceRow['origin'];
    price: Price | undefined;
    now: Date;
    /** Whether a person or the release stands behind it. */
    reviewed?: boolean;
  },
): Promise<ModelPriceRow> {
  const { modelId, origin, price, now, reviewed = true } = version;
  return await tx
    .insertInto('model_prices')
    .values((row) => ({
      model_id: modelId,
      version: row
        .selectFrom('model_prices')
        .select(sql<number>`coalesce(max(version), 0) + 1`.as('next'))
        .where('model_id', '=', modelId),
      origin,
      reviewed,
      ended: !price,
      price: price ? JSON.stringify(priceDocument(price)) : null,
      created_at: now,
    }))
    .returning([...VERSION, 'price'])
    .executeTakeFirstOrThrow();
}

/** Adds the first versions of shipped prices in one statement, for models that never had a price. */
export async function insertFirstPrices(
  tx: Tx,
  prices: readonly { readonly modelId: string; readonly price: Price }[],
  now: Date,
): Promise<void> {
  if (prices.length === 0) return;
  const values = prices.map(({ modelId, price }) => ({
    model_id: modelId,
    version: 1,
    origin: 'catalog' as const,
    price: JSON.stringify(priceDocument(price)),
    created_at: now,
  }));
  await tx.insertInto('model_prices').values(values).execute();
}

const isPriced = sql<boolean>`coalesce(NOT (
  SELECT ended FROM model_prices WHERE ${isOfModel} ORDER BY version DESC LIMIT 1
), false)`;

function factColumns({
  benchmark_scores,
  capabilities,
  other_names,
  ...facts
}: Partial<ModelFacts & ModelNameFacts>) {
  return {
    ...facts,
    ...(other_names && { other_names: [...other_names] }),
    ...(capabilities && { capabilities: [...capabilities] }),
    ...(benchmark_scores && { benchmark_scores: JSON.stringify(benchmark_scores) }),
  } as Omit<ModelFacts, 'benchmark_scores' | 'capabilities'> & {
    benchmark_scores: string;
    capabilities: string[];
  };
}
