import { dearestPrices } from './dearestPrices.ts';
import { type ServiceConditions, serviceConditions } from './meteredUsage.ts';
import { type ContextPrices, mapRates, type Price, type PriceVariant } from './modelPrice.ts';
import { pricesFor } from './pricing.ts';

/** The geography of a price that holds in each region of a cloud without a price of its own, but not for `global`. */
const REGIONAL = 'regional';
/** Of a price that knows the multiple of each condition alone, nothing else is asked. */
const PUBLISHED = dearestPrices([]);

/**
 * What a model costs at an account in this region of a cloud: its variant for the region, else the one for all regions, else the
 * list price. The answers of clouds do not say where they ran, so what it costs elsewhere is left out. The same price if nothing
 * depends on the region.
 */
export function priceInRegion<Some extends Price>(price: Some, region: string): Some {
  if (price.variants.every(({ service }) => service.geography === '')) return price;
  const geography = geographyOf(price, serviceConditions('', '', region).geography);
  const at = (service: Omit<ServiceConditions, 'geography'>): ContextPrices =>
    ratesOf(pricesFor({ ...service, geography }, price, PUBLISHED));
  const variants = new Map<string, PriceVariant>();
  for (const { service } of price.variants) {
    const { serviceTier, speed } = service;
    const isOfRegion = service.geography === '' || service.geography === geography;
    if (!isOfRegion || (serviceTier === '' && speed === '')) continue;
    const here = { ...at({ serviceTier, speed }), service: { serviceTier, speed, geography: '' } };
    variants.set(`${serviceTier}\n${speed}`, here);
  }
  return { ...price, ...at({ serviceTier: '', speed: '' }), variants: [...variants.values()] };
}

/** Each class, also those without a price: they replace another price's. */
function ratesOf(prices: ContextPrices): ContextPrices {
  return { ...mapRates(prices, (price) => price), tiers: prices.tiers };
}

/** The geography whose prices hold in the region; empty for the list price. */
function geographyOf({ variants }: Pick<Price, 'variants'>, region: string): string {
  const isPriced = (name: string) =>
    variants.some(
      ({ service }) => service.geography === name && service.serviceTier === '' && service.speed === '',
    );
  // `global` is the list price.
  return region === '' ? '' : ([region, REGIONAL].find(isPriced) ?? '');
}
