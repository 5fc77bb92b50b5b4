import type { ModelPriceRow, ModelRow } from './catalog.repository.ts';

type Confirmations = Pick<ModelRow, 'shipped_priced_at' | 'feed_confirmed_at' | 'feed_confirmed_version'>;
type Version = Pick<ModelPriceRow, 'version' | 'origin' | 'created_at'>;

/**
 * When the source of a price last said that it holds: the date of the shipped catalog, the last time the feed stated the same,
 * or when an operator set it.
 */
export function pricedAt(model: Confirmations, price: Version): Date {
  const stated =
    price.origin === 'catalog' && model.shipped_priced_at ? model.shipped_priced_at : price.created_at;
  const confirmed =
    model.feed_confirmed_version === price.version && price.origin !== 'operator'
      ? model.feed_confirmed_at
      : null;
  return confirmed && confirmed > stated ? confirmed : stated;
}
