import type { Tx } from '@weighbridge/database';
import { compileModelPatterns, type Money } from '@weighbridge/domain';
import { type PageOf, page, pageRequest } from '../../http/paging.ts';
import type { Caller } from '../access/caller.ts';
import { type ConnectorDeps, usableConnectors } from '../connectors/connectors.service.ts';
import { type KeyDeps, visibleKey } from '../keys/keys.service.ts';
import { countersOf } from '../policies/policies.service.ts';
import type { ShippedModel } from './catalogFile.ts';
import {
  addPriceVersion,
  findPricedModels,
  type PricedModelRow,
  pricesOf,
  upsertModel,
} from './models.repository.ts';
import { benchmarkScores, price } from './models.ts';

export { type PricedModelRow, pricesOf };

export type ModelDeps = KeyDeps & ConnectorDeps;

/** A model as the API lists it. Prices are per one million tokens. */
export interface ListedModel {
  readonly model: string;
  readonly provider: string;
  readonly input_price: Money;
  readonly output_price: Money;
  readonly cache_read_price: Money;
  readonly cache_write_price: Money;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: string[];
  readonly deprecated_at: string | null;
  readonly benchmark_scores: Record<string, number>;
}

/** The models that the caller can really reach now: priced, allowed by its policies, with a usable connector. */
export async function listModels(
  deps: ModelDeps,
  caller: Caller,
  query: { readonly page_token?: string; readonly page_size?: string },
): Promise<PageOf<ListedModel>> {
  const request = pageRequest('models', query);
  const { counters } = await countersOf(deps.db, await visibleKey(deps, caller, caller.keyId), deps.now());
  const allowedByEach = counters.map(({ policy }) => compileModelPatterns(policy.allowed_models));
  const rows = (await routableModels(deps, request.after?.[0])).filter((row) =>
    allowedByEach.every((allowed) => allowed(row.id)),
  );
  return page('models', request, rows, (row) => [row.id], present);
}

/** Every model with a price whose provider has a usable connector, in the order of ids. */
export async function routableModels(deps: ConnectorDeps, after = ''): Promise<PricedModelRow[]> {
  const providers = new Set((await usableConnectors(deps)).map((connector) => connector.provider));
  return await findPricedModels(deps.db, { providers: [...providers], after, limit: MAX_MODELS });
}

/** A catalog is read whole where it goes to a proxy, so it has to end somewhere. */
const MAX_MODELS = 10_000;

/** Brings the catalog to what ships. A price that changed gets a new version; the old ones stay with what they priced. */
export async function importCatalog(
  tx: Tx,
  models: readonly ShippedModel[],
  now: Date,
): Promise<{ newPrices: number }> {
  let newPrices = 0;
  for (const model of models) {
    await upsertModel(tx, model, now);
    if (await addPriceVersion(tx, model, now)) newPrices++;
  }
  return { newPrices };
}

function present(row: PricedModelRow): ListedModel {
  return {
    model: row.id,
    provider: row.provider,
    input_price: price(row.input_nano_usd),
    output_price: price(row.output_nano_usd),
    cache_read_price: price(row.cache_read_nano_usd),
    cache_write_price: price(row.cache_write_nano_usd),
    context_window: row.context_window,
    max_output_tokens: row.max_output_tokens,
    capabilities: row.capabilities,
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    benchmark_scores: benchmarkScores(row.benchmark_scores as Record<string, number>),
  };
}
