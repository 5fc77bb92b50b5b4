import { type Price, priceDocument } from '@weighbridge/domain';
import type { ShippedJson } from './catalog.ts';
import type { CatalogFileModel } from './catalogFile.ts';

/** A model of the shipped catalog at some time. Null: no price is known. */
export type ShippedModel = Omit<CatalogFileModel, 'prices'> & {
  readonly price: Price | null;
  /** When the price became effective, if it has a date. */
  readonly effectiveFrom: Date | null;
};

/** The catalog with the prices that are in force. */
export function shippedCatalog(files: readonly CatalogFileModel[], at: Date): ShippedModel[] {
  return files.map(({ prices, ...model }) => {
    const inForce = prices.findLast(({ from }) => from === null || from <= at);
    return { ...model, price: inForce?.price ?? null, effectiveFrom: inForce?.from ?? null };
  });
}

/** The models whose price changes after one time and not after another, and when the next price after that changes. */
export function duePrices(
  files: readonly CatalogFileModel[],
  { after, until }: { after: Date; until: Date },
): { readonly due: CatalogFileModel[]; readonly next: Date | undefined } {
  const changes = (model: CatalogFileModel) => model.prices.flatMap(({ from }) => from ?? []);
  const due = files.filter((model) => changes(model).some((from) => from > after && from <= until));
  const later = files.flatMap(changes).filter((from) => from > until);
  const next = later.reduce<Date | undefined>(
    (first, from) => (first && first <= from ? first : from),
    undefined,
  );
  return { due, next };
}

/** As a row of the catalog has it. */
export function shippedJson(model: ShippedModel): ShippedJson {
  return {
    upstream_name: model.upstreamName,
    context_window: model.contextWindow,
    max_output_tokens: model.maxOutputTokens,
    capabilities: model.capabilities,
    benchmark_scores: model.benchmarkScores,
    // In UTC, whatever the time zone of the database.
    deprecated_at: model.deprecatedAt && `${model.deprecatedAt}T00:00:00.000Z`,
    names: { other_names: model.otherNames, own: model.own },
    own_price: model.ownPrice,
    price: model.price && priceDocument(model.price),
  };
}
