import { min } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { compileModelPatterns, microFromNano, moneyFromNano } from '@weighbridge/domain';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import {
  enabledModels,
  type NamedModel,
  type PricedModel,
  pricedModels,
} from '../catalog/catalog.service.ts';
import { pricedAt } from '../catalog/pricedAt.ts';
import { type Negotiated, negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import {
  type ConnectorDeps,
  type UsableConnector,
  usableConnectors,
} from '../connectors/connectors.service.ts';
import { governedKeyOf } from '../keys/effectiveKey.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { countersOfKey } from '../policies/policies.service.ts';
import { type BoundLimit, boundLimitsOf, countsAll, remainderOf } from '../usage/boundLimits.service.ts';
import { type CallerPrice, callerPrices } from './callerPrices.ts';
import type { Model } from './models.schemas.ts';

export type ModelDeps = KeyDeps & ConnectorDeps;

/** The models that the caller can use now: enabled, priced, allowed by its policies, with a usable connector; and at what price. */
export async function listModels(
  deps: ModelDeps,
  caller: Caller,
  query: { readonly page_token?: string; readonly page_size?: string },
): Promise<PageOf<Model>> {
  const request = pageRequest('models', query, positionOf(part.text));
  const now = deps.now();
  const key = await governedKeyOf(deps.db, caller);
  const { counters } = await countersOfKey(deps.db, key, now);
  const limits = (await boundLimitsOf(deps.db, counters, key, now)).filter((limit) => !countsAll(limit));
  const allowedByEach = counters.map(({ policy }) => compileModelPatterns(policy.allowed_models));
  const connectors = await usableConnectors(deps);
  const { models, negotiated } = await servedModels(deps.db, connectors, { after: request.after?.[0] });
  const rows = models.filter((row) => allowedByEach.every((allowed) => allowed(row.id)));
  const priceOf = callerPrices(connectors, negotiated);
  return page(
    'models',
    request,
    rows,
    (row) => [row.id],
    (row) => toModel(row, priceOf(row), headroomFor(row.id, limits)),
  );
}

/** The enabled models with a price that one of these connectors serves, by model id, and what was negotiated for these. With `ids`, only of those. */
export async function servedModels(
  db: Database,
  connectors: readonly UsableConnector[],
  { after, ids }: { readonly after?: string | undefined; readonly ids?: readonly string[] | undefined } = {},
): Promise<{ models: PricedModel[]; negotiated: Negotiated['prices'] }> {
  const serving = new Map<string, ((model: string) => boolean)[]>();
  for (const { provider, models } of connectors) {
    serving.set(provider, [...(serving.get(provider) ?? []), compileModelPatterns(models)]);
  }
  const rows = await pricedModels(db, { providers: [...serving.keys()], ids, after, limit: MAX_MODELS });
  const { prices: negotiated, unreadable } = await negotiatedPrices(
    db,
    connectors.map(({ id }) => id),
    ids,
  );
  const models = rows.filter(
    ({ id, provider }) => !unreadable.has(id) && serving.get(provider)?.some((serves) => serves(id)),
  );
  return { models, negotiated };
}

/** What the catalog has, and none of these models is: without a connector or a price. By id. With `ids`, only of those. */
export async function unservedModels(
  db: Database,
  served: readonly Pick<PricedModel, 'id'>[],
  ids?: readonly string[],
): Promise<NamedModel[]> {
  const known = new Set(served.map(({ id }) => id));
  return (await enabledModels(db, MAX_MODELS, ids)).filter(({ id }) => !known.has(id));
}

/** More than fit into `MAX_TABLE_BYTES`, so none is left out. */
const MAX_MODELS = 250_000;

/** The smallest remainder of the limits that count a model. Null: none does. */
function headroomFor(model: string, limits: readonly BoundLimit[]): number | null {
  const left = limits.flatMap((limit) => (limit.counts(model) ? (remainderOf(limit) ?? []) : []));
  const [first, ...others] = left;
  return first === undefined ? null : microFromNano(others.reduce(min, first));
}

/** A model as the API shows it, with the price that its caller is charged. */
function toModel(row: PricedModel, { price, negotiatedAt }: CallerPrice, headroom: number | null): Model {
  const { version, price_origin, price_created_at } = row;
  const listed = { version, origin: price_origin, created_at: price_created_at };
  return {
    model: row.id,
    provider: row.provider,
    input_price: moneyFromNano(price.input),
    output_price: moneyFromNano(price.output),
    cache_read_price: moneyFromNano(price.cacheRead),
    cache_write_price: moneyFromNano(price.cacheWrite),
    priced_at: (negotiatedAt ?? pricedAt(row, listed)).toISOString(),
    price_origin: negotiatedAt ? 'connector' : price_origin,
    context_window: row.context_window,
    max_output_tokens: row.max_output_tokens,
    capabilities: row.capabilities,
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    benchmark_scores: benchmarkScores(row.benchmark_scores as Record<string, number>),
    headroom_micro_usd: headroom,
  };
}
