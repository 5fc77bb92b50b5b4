import type { Database } from '@weighbridge/database';

/** The list price of a model, in nano-USD per million tokens. */
export interface ListPrice {
  readonly version: number;
  readonly input: bigint;
  readonly cacheRead: bigint;
  readonly output: bigint;
}

const PER_MILLION = 1_000_000n;

/** The catalog's current prices of these models. */
export async function readListPrices(
  db: Database,
  models: readonly string[],
): Promise<ReadonlyMap<string, ListPrice>> {
  const rows = await db
    .selectFrom('model_prices')
    .select(['model_id', 'version', 'input_nano_usd', 'cache_read_nano_usd', 'output_nano_usd'])
    .where('model_id', 'in', models)
    .orderBy('version')
    .execute();
  const prices = new Map<string, ListPrice>();
  for (const row of rows) {
    const { input_nano_usd: input, output_nano_usd: output } = row;
    if (input === null || output === null) continue;
    prices.set(row.model_id, {
      version: row.version,
      input,
      output,
      cacheRead: row.cache_read_nano_usd ?? input,
    });
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
