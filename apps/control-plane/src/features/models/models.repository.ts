import type { Database, ModelPrices, Models, Tx } from '@weighbridge/database';
import type { PriceTier, TokenPrices } from '@weighbridge/domain';
import { type Selectable, sql } from 'kysely';
import type { ShippedModel } from './catalogFile.ts';

/** A model with its newest price: only such a one can be routed to. */
export type PricedModelRow = Selectable<Models> & Omit<Selectable<ModelPrices>, 'model_id' | 'created_at'>;

/** The models of some providers, by id, after a given one. */
export async function findPricedModels(
  db: Database,
  { providers, after, limit }: { providers: readonly string[]; after: string; limit: number },
): Promise<PricedModelRow[]> {
  if (providers.length === 0) return [];
  return await db
    .selectFrom('models')
    .innerJoin('model_prices', 'model_prices.model_id', 'models.id')
    .selectAll('models')
    .select([
      'model_prices.version',
      'model_prices.input_nano_usd',
      'model_prices.output_nano_usd',
      'model_prices.cache_read_nano_usd',
      'model_prices.cache_write_nano_usd',
      'model_prices.cache_write_1h_nano_usd',
      'model_prices.tiers',
    ])
    .distinctOn('models.id')
    .where('models.provider', 'in', providers)
    .where('models.id', '>', after)
    .orderBy('models.id')
    .orderBy('model_prices.version', 'desc')
    .limit(limit)
    .execute();
}

export async function upsertModel(tx: Tx, model: ShippedModel, now: Date): Promise<void> {
  const facts = {
    provider: model.provider,
    upstream_name: model.upstreamName,
    context_window: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    capabilities: [...model.capabilities],
    benchmark_scores: JSON.stringify(model.benchmarkScores),
    deprecated_at: model.deprecatedAt,
    updated_at: now,
  };
  await tx
    .insertInto('models')
    .values({ id: model.id, ...facts })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(facts))
    .execute();
}

/** Adds a version where the price differs from the newest; returns whether it did. */
export async function addPriceVersion(tx: Tx, model: ShippedModel, now: Date): Promise<boolean> {
  const price = priceColumns(model.price);
  const tiers = JSON.stringify(model.price.tiers.map(tierJson));
  const { rows } = await sql<{ version: number }>`
    INSERT INTO model_prices (model_id, version, input_nano_usd, output_nano_usd, cache_read_nano_usd,
                              cache_write_nano_usd, cache_write_1h_nano_usd, tiers, created_at)
    SELECT ${model.id}, coalesce(newest.version, 0) + 1, wanted.*, ${now}
    FROM (SELECT ${price.input_nano_usd}::bigint, ${price.output_nano_usd}::bigint, ${price.cache_read_nano_usd}::bigint,
                 ${price.cache_write_nano_usd}::bigint, ${price.cache_write_1h_nano_usd}::bigint, ${tiers}::jsonb)
         AS wanted (input, output, cache_read, cache_write, cache_write_1h, tiers)
    LEFT JOIN LATERAL (SELECT * FROM model_prices WHERE model_id = ${model.id} ORDER BY version DESC LIMIT 1) AS newest ON true
    WHERE (newest.input_nano_usd, newest.output_nano_usd, newest.cache_read_nano_usd, newest.cache_write_nano_usd,
           newest.cache_write_1h_nano_usd, newest.tiers)
      IS DISTINCT FROM (wanted.input, wanted.output, wanted.cache_read, wanted.cache_write, wanted.cache_write_1h, wanted.tiers)
    RETURNING version`.execute(tx);
  return rows.length > 0;
}

/** The price of a row, as the rules of pricing take it. */
export function pricesOf(row: PricedModelRow): TokenPrices & { readonly tiers: PriceTier[] } {
  return { ...ratesOf(row), tiers: (row.tiers as unknown as TierJson[]).map(tierOf) };
}

type PriceColumns<Amount> = Record<
  | 'input_nano_usd'
  | 'output_nano_usd'
  | 'cache_read_nano_usd'
  | 'cache_write_nano_usd'
  | 'cache_write_1h_nano_usd',
  Amount
>;
/** JSON numbers are floats to most readers: amounts are decimal strings. */
type TierJson = PriceColumns<string> & { readonly above_input_tokens: number };

function priceColumns(prices: TokenPrices): PriceColumns<bigint> {
  return {
    input_nano_usd: prices.input,
    output_nano_usd: prices.output,
    cache_read_nano_usd: prices.cacheRead,
    cache_write_nano_usd: prices.cacheWrite,
    cache_write_1h_nano_usd: prices.cacheWrite1h,
  };
}

function ratesOf(columns: PriceColumns<bigint | string>): TokenPrices {
  return {
    input: BigInt(columns.input_nano_usd),
    output: BigInt(columns.output_nano_usd),
    cacheRead: BigInt(columns.cache_read_nano_usd),
    cacheWrite: BigInt(columns.cache_write_nano_usd),
    cacheWrite1h: BigInt(columns.cache_write_1h_nano_usd),
  };
}

function tierJson(tier: PriceTier) {
  const amounts = Object.entries(priceColumns(tier)).map(([name, amount]) => [name, String(amount)]);
  return { above_input_tokens: tier.aboveInputTokens, ...Object.fromEntries(amounts) };
}

function tierOf(tier: TierJson): PriceTier {
  return { aboveInputTokens: tier.above_input_tokens, ...ratesOf(tier) };
}
