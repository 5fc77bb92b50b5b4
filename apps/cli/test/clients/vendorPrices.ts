import type { VendorPrice, VendorRates } from '@weighbridge/mock-vendor';

type Json = Record<string, unknown>;

interface CatalogModel {
  readonly provider: string;
  readonly upstream_name: string;
  readonly other_names?: readonly string[];
  readonly price: { readonly price: Json | null } | null;
}

/** What a vendor charges by its own list, which the catalog repeats; by the names under which it sells its models. */
export function vendorPrices(models: readonly Json[], provider: string): Record<string, VendorPrice> {
  const prices: Record<string, VendorPrice> = {};
  for (const model of models as unknown as readonly CatalogModel[]) {
    const price = model.price?.price;
    if (model.provider !== provider || !price) continue;
    for (const name of [...(model.other_names ?? []), model.upstream_name]) prices[name] = priceOf(price);
  }
  return prices;
}

function priceOf(price: Json): VendorPrice {
  const tools = Object.entries((price.tool_prices ?? {}) as Json).map(([name, cost]) => [name, nano(cost)]);
  return {
    ...ratesOf(price),
    tiers: tiersOf(price),
    variants: ((price.variants ?? []) as readonly Json[]).map((variant) => ({
      ...ratesOf(variant),
      serviceTier: String(variant.service_tier ?? ''),
      speed: String(variant.speed ?? ''),
      geography: String(variant.geography ?? ''),
      tiers: tiersOf(variant),
    })),
    tools: Object.fromEntries(tools),
  };
}

function tiersOf(price: Json) {
  return ((price.tiers ?? []) as readonly Json[]).map((tier) => ({
    ...ratesOf(tier),
    aboveInputTokens: Number(tier.above_input_tokens),
  }));
}

function ratesOf(price: Json): VendorRates {
  const rate = (name: string) => (price[name] ? nano(price[name]) : undefined);
  const rates = {
    input: nano(price.input_price),
    output: nano(price.output_price),
    cacheRead: rate('cache_read_price'),
    cacheWrite: rate('cache_write_price'),
    cacheWrite1h: rate('cache_write_1h_price'),
  };
  return Object.fromEntries(
    Object.entries(rates).filter(([, value]) => value !== undefined),
  ) as unknown as VendorRates;
}

/** Nano-USD per million tokens. */
function nano(money: unknown): bigint {
  const { units, nanos } = money as { units: number; nanos: number };
  return BigInt(units) * 1_000_000_000n + BigInt(nanos);
}
