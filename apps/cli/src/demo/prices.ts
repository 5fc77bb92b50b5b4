import type { Database } from '@weighbridge/database';
import { type ModelPrice, modelPriceOf } from '@weighbridge/domain';

/** The list price of a model, in nano-USD per million tokens. */
export type ListPrice = Pick<ModelPrice, 'version' | 'input' | 'cacheRead' | 'output'>;

const PER_MILLION = 1_000_000n;

/** The catalog's current prices of these models. */
export async function readListPrices(
  db: Database,
  models: readonly string[],
): Promise<ReadonlyMap<string, ListPrice>> {
  const rows = await db
    .selectFrom('model_prices')
    .select(['model_id', 'version', 'ended', 'price'])
    .where('model_id', 'in', models)
    .orderBy('version')
    .execute();
  const prices = new Map<string, ListPrice>();
  for (const row of rows) {
    const price = modelPriceOf(row);
    if (price) prices.set(row.model_id, price);
  }
  const missing = models.filter((model) => !prices.has(model));
  if (missing.length > 0) throw new Error(`the catalog has no price for ${missing.join(', ')}`);
  return prices;
}

/** Nano-USD, rounded half up once, as vendors and the service do. */
export function costAt(
  price: ListPrice,
  tokens: { readonly input: number; readonly cached: number; readonly output: number },
): bigint {
  const exact =
    BigInt(tokens.input - tokens.cached) * price.input +
    BigInt(tokens.cached) * price.cacheRead +
    BigInt(tokens.output) * price.output;
  return (exact + PER_MILLION / 2n) / PER_MILLION;
}
