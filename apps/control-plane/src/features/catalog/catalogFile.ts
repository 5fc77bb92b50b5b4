import { readdir, readFile } from 'node:fs/promises';
import { type ModelPrice, nanoFromDecimalUsd, type PriceTier, type TokenPrices } from '@weighbridge/domain';
import Type, { type Static } from 'typebox';
import { Errors } from 'typebox/value';

const CATALOG = new URL('../../../catalog/', import.meta.url);

const Price = Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,9})?$' });
const OptionalPrice = Type.Optional(Type.Union([Price, Type.Null()]));
const Prices = {
  input_price: Price,
  output_price: Price,
  cache_read_price: OptionalPrice,
  cache_write_price: OptionalPrice,
  cache_write_1h_price: OptionalPrice,
};
const OptionalDate = Type.Union([Type.String({ format: 'date' }), Type.Null()]);
const Score = Type.Object({ score: Type.Number({ minimum: 0, maximum: 100 }), source: Type.String() });

const FileModel = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    ...Prices,
    price_tiers: Type.Array(
      Type.Object(
        { above_input_tokens: Type.Integer({ minimum: 1 }), ...Prices },
        { additionalProperties: false },
      ),
    ),
    context_window: Type.Integer({ minimum: 1 }),
    max_output_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    capabilities: Type.Array(Type.String()),
    released_at: OptionalDate,
    deprecated_at: OptionalDate,
    benchmark_scores: Type.Object(
      { mmlu: Type.Optional(Score), human_eval: Type.Optional(Score), mt_bench: Type.Optional(Score) },
      { additionalProperties: false },
    ),
    note: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

const CatalogFile = Type.Object(
  {
    provider: Type.String({ pattern: '^[a-z0-9-]+$' }),
    as_of: Type.String({ format: 'date' }),
    source: Type.String({ minLength: 1 }),
    models: Type.Array(FileModel),
  },
  { additionalProperties: false },
);

type FileModel = Static<typeof FileModel>;
type CatalogPrices = Pick<FileModel, keyof typeof Prices>;

/** A model of the shipped catalog. */
export interface ShippedModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  readonly price: Omit<ModelPrice, 'version'>;
  readonly contextWindow: number;
  readonly maxOutputTokens: number | null;
  readonly capabilities: readonly string[];
  /** `mmlu` and `human_eval` on a scale of 100, `mt_bench` of 10. Unpublished scores are absent. */
  readonly benchmarkScores: Readonly<Record<string, number>>;
  readonly deprecatedAt: string | null;
}

/** Reads the shipped catalog. Rejects with the file and field if a file is invalid. */
export async function readShippedCatalog(): Promise<ShippedModel[]> {
  const files = (await readdir(CATALOG)).filter((file) => file.endsWith('.json')).sort();
  const catalogs = await Promise.all(files.map(readCatalogFile));
  return catalogs.flat();
}

async function readCatalogFile(file: string): Promise<ShippedModel[]> {
  const content: unknown = JSON.parse(await readFile(new URL(file, CATALOG), 'utf8'));
  const [error] = Errors(CatalogFile, content);
  if (error) throw new Error(`catalog/${file} ${error.instancePath}: ${error.message}`);
  const { provider, models } = content as Static<typeof CatalogFile>;
  return models.map((model) => ({
    id: `${provider}/${model.name}`,
    provider,
    upstreamName: model.name,
    price: {
      ...tokenPrices(model),
      tiers: model.price_tiers.map(priceTier),
      variants: [],
      toolPrices: {},
    },
    contextWindow: model.context_window,
    maxOutputTokens: model.max_output_tokens,
    capabilities: model.capabilities,
    benchmarkScores: Object.fromEntries(
      Object.entries(model.benchmark_scores).map(([name, { score }]) => [name, score]),
    ),
    deprecatedAt: model.deprecated_at,
  }));
}

function priceTier(tier: CatalogPrices & { above_input_tokens: number }): PriceTier {
  return { aboveInputTokens: tier.above_input_tokens, ...tokenPrices(tier) };
}

/** Classes that the vendor does not price separately cost the same as input. */
function tokenPrices(prices: CatalogPrices): TokenPrices {
  const input = nanoFromDecimalUsd(prices.input_price);
  const orInput = (price: string | null | undefined): bigint => (price ? nanoFromDecimalUsd(price) : input);
  const cacheWrite = orInput(prices.cache_write_price);
  return {
    input,
    output: nanoFromDecimalUsd(prices.output_price),
    cacheRead: orInput(prices.cache_read_price),
    cacheWrite,
    cacheWrite1h: prices.cache_write_1h_price ? nanoFromDecimalUsd(prices.cache_write_1h_price) : cacheWrite,
  };
}
