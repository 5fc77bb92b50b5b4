import { readdir, readFile } from 'node:fs/promises';
import {
  decimalUsd,
  nanoFromDecimalUsd,
  PRICE_FIELDS,
  type Price,
  priceFields,
  readPrice,
} from '@weighbridge/domain';
import Type, { type Static } from 'typebox';
import { Errors } from 'typebox/value';

const CATALOG = new URL('../../../catalog/', import.meta.url);

const Strict = <Fields extends Parameters<typeof Type.Object>[0]>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false });
const Amount = Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,9})?$' });
const rates = priceFields(['input', 'output'], Amount, Type.Optional(Amount));
const contextRates = {
  ...rates,
  price_tiers: Type.Array(Strict({ above_input_tokens: Type.Integer({ minimum: 1 }), ...rates })),
};
const Condition = Type.String({ pattern: '^[a-z0-9_-]*$' });
const DatedPrice = Strict({
  from: Type.Union([Type.String({ format: 'date' }), Type.Null()]),
  ...contextRates,
  variants: Type.Array(
    Strict({ service_tier: Condition, speed: Condition, geography: Condition, ...contextRates }),
  ),
  tool_prices: Type.Record(Type.String({ pattern: '^[a-z0-9_]+$' }), Amount),
});
const OptionalDate = Type.Union([Type.String({ format: 'date' }), Type.Null()]);
const Score = Type.Object({ score: Type.Number({ minimum: 0, maximum: 100 }), source: Type.String() });

const FileModel = Strict({
  name: Type.String({ minLength: 1 }),
  own: Type.Optional(Type.Boolean()),
  other_names: Type.Array(Type.String({ minLength: 1 })),
  prices: Type.Array(DatedPrice),
  unpriced: Type.Optional(Type.String()),
  context_window: Type.Integer({ minimum: 1 }),
  max_output_tokens: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  capabilities: Type.Array(Type.String()),
  released_at: OptionalDate,
  deprecated_at: OptionalDate,
  benchmark_scores: Strict({
    mmlu: Type.Optional(Score),
    human_eval: Type.Optional(Score),
    mt_bench: Type.Optional(Score),
  }),
  note: Type.Optional(Type.String()),
  sources: Type.Array(Type.String()),
});

const CatalogFile = Strict({
  provider: Type.String({ pattern: '^[a-z0-9-]+$' }),
  as_of: Type.String({ format: 'date' }),
  source: Type.String({ minLength: 1 }),
  own_models: Type.Boolean(),
  sources: Type.Record(
    Type.String(),
    Strict({ name: Type.String(), url: Type.Optional(Type.String()), date: Type.String({ format: 'date' }) }),
  ),
  models: Type.Array(FileModel),
});

/** A model of the shipped catalog, with its prices by date. */
export interface CatalogFileModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  /** The provider's other names of it. */
  readonly otherNames: readonly string[];
  /** The provider made it. False if the provider serves a model that another company made. */
  readonly own: boolean;
  /** As of when its sources state the prices. */
  readonly pricedAt: Date;
  /** The prices are of our own facts, not of the list of prices. */
  readonly ownPrice: boolean;
  /** Oldest first. Empty: no price is known. */
  readonly prices: readonly DatedPrice[];
  readonly contextWindow: number;
  readonly maxOutputTokens: number | null;
  readonly capabilities: readonly string[];
  /** `mmlu` and `human_eval` on a scale of 100, `mt_bench` of 10. Unpublished scores are absent. */
  readonly benchmarkScores: Readonly<Record<string, number>>;
  readonly deprecatedAt: string | null;
}

interface DatedPrice {
  /** When it becomes effective; null: it always was. */
  readonly from: Date | null;
  readonly price: Price;
}

/** Reads the shipped catalog. Rejects with the file and field if a file is invalid. */
export async function readCatalogFiles(): Promise<CatalogFileModel[]> {
  const files = (await readdir(CATALOG)).filter((file) => file.endsWith('.json')).sort();
  const catalogs = await Promise.all(
    files.map(async (file) => parseCatalogFile(file, await readFile(new URL(file, CATALOG), 'utf8'))),
  );
  return catalogs.flat();
}

export function parseCatalogFile(file: string, text: string): CatalogFileModel[] {
  const content: unknown = JSON.parse(text);
  const [error] = Errors(CatalogFile, content);
  if (error) throw new Error(`catalog/${file} ${error.instancePath}: ${error.message}`);
  const { provider, own_models, models, as_of, sources } = content as Static<typeof CatalogFile>;
  return models.map((model) => ({
    id: `${provider}/${model.name}`,
    provider,
    upstreamName: model.name,
    otherNames: model.other_names,
    own: model.own ?? own_models,
    pricedAt: new Date(`${statedOn(model.sources, sources, as_of)}T00:00:00Z`),
    ownPrice: !model.sources.includes(PRICE_LIST),
    prices: model.prices.map(datedPrice),
    contextWindow: model.context_window,
    maxOutputTokens: model.max_output_tokens,
    capabilities: model.capabilities,
    benchmarkScores: Object.fromEntries(
      Object.entries(model.benchmark_scores).map(([name, { score }]) => [name, score]),
    ),
    deprecatedAt: model.deprecated_at,
  }));
}

/** The source of list prices. A model without it has prices of our own facts, from the sources that it names. */
const PRICE_LIST = 'genai-prices';

/** The date of the list that has the price, else of the oldest source: never later than the price was looked up. */
function statedOn(
  names: readonly string[],
  sources: Static<typeof CatalogFile>['sources'],
  asOf: string,
): string {
  const stating = names.includes(PRICE_LIST) ? [PRICE_LIST] : names;
  const [oldest = asOf] = stating.flatMap((name) => sources[name]?.date ?? []).sort();
  return oldest;
}

/** Media without a price have none. */
const FORM = { members: PRICE_FIELDS, nano: nanoFromDecimalUsd, amount: decimalUsd, hasNulls: false };

function datedPrice({ from, variants, ...list }: Static<typeof DatedPrice>): DatedPrice {
  const price = readPrice(FORM, { ...withTiers(list), variants: variants.map(withTiers) });
  return { from: from === null ? null : new Date(`${from}T00:00:00Z`), price };
}

function withTiers<Tiers, Rest>({ price_tiers: tiers, ...rest }: Rest & { readonly price_tiers: Tiers }) {
  return { ...rest, tiers };
}
