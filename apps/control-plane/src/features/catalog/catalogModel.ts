import type { Database } from '@weighbridge/database';
import { priceOf } from '@weighbridge/domain';
import { benchmarkScores } from './benchmarkScores.ts';
import { findNewestPrices, type ModelPriceRow, type ModelRow } from './catalog.repository.ts';
import type { CatalogModel } from './catalog.schemas.ts';
import { pricedAt } from './pricedAt.ts';
import type { CatalogPrice } from './prices.schemas.ts';
import { toFullPrice } from './prices.ts';

/** A model of the catalog with its current price, as the API shows it. */
export async function readWithPrice(db: Database, row: ModelRow): Promise<CatalogModel> {
  return toCatalogModel(row, (await findNewestPrices(db, [row.id])).get(row.id));
}

export function toCatalogModel(row: ModelRow, price: ModelPriceRow | undefined): CatalogModel {
  return {
    model: row.id,
    provider: row.provider,
    upstream_name: row.upstream_name,
    origin: row.origin,
    overridden: row.overridden,
    disabled: row.disabled,
    context_window: row.context_window,
    max_output_tokens: row.max_output_tokens,
    capabilities: row.capabilities,
    benchmark_scores: benchmarkScores(row.benchmark_scores as Record<string, number>),
    other_names: row.other_names,
    own: row.own,
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    price: price && !price.ended ? toCatalogPrice(price) : null,
    priced_at: price && !price.ended ? pricedAt(row, price).toISOString() : null,
    updated_at: row.updated_at.toISOString(),
  };
}

/** The price version of a row as the API shows it. */
export function toCatalogPrice(row: ModelPriceRow): CatalogPrice {
  const price = priceOf(row);
  return {
    version: row.version,
    origin: row.origin,
    price: price ? toFullPrice(price) : null,
    created_at: row.created_at.toISOString(),
  };
}
