import {
  compileModelPatterns,
  type Offer,
  observedOf,
  parseModelId,
  type RoutingProfile,
  type Strata,
  type TokenPrices,
} from '@weighbridge/domain';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import { modelsWithPrices } from '../catalog/catalog.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import {
  type ConnectorDeps,
  type ConnectorRow,
  connectorsWithUsability,
} from '../connectors/connectors.service.ts';
import type { PolicyRow } from '../policies/policies.service.ts';

/** One model at one connector. */
export interface Account {
  readonly row: ConnectorRow;
  readonly price: TokenPrices;
  readonly priceSource: 'catalog' | 'connector';
}

/** A connector that could serve a model, were it not for this. */
interface UnusableAccount {
  readonly model: string;
  readonly connectorId: string;
  readonly why: string;
}

/** A request as far as what is offered to it depends on it. */
interface Asked {
  readonly policies: readonly PolicyRow[];
  readonly workloadType: string;
  readonly strata: Strata | undefined;
}

/** How the models of a profile stand now: what a proxy has from its control plane, and why it has not what is missing. */
export async function offersOf(
  deps: ConnectorDeps,
  { targets }: RoutingProfile,
  { policies, workloadType, strata = () => undefined }: Asked,
): Promise<{ offers: Offer<Account>[]; unusable: UnusableAccount[] }> {
  const ids = targets.map(({ model }) => model);
  const providers = [...new Set(ids.flatMap((model) => parseModelId(model)?.provider ?? []))];
  const entries = await modelsWithPrices(deps.db, ids);
  const connectors = await connectorsWithUsability(deps, providers);
  const negotiated = await negotiatedPrices(
    deps.db,
    connectors.map(({ row }) => row.id),
  );
  const allowedByEach = policies.map((policy) => compileModelPatterns(policy.allowed_models));
  const unusable: UnusableAccount[] = [];

  const offers = targets.map(({ model, weight }): Offer<Account> => {
    const entry = entries.get(model);
    if (!entry) return { model, unusable: 'the catalog has no model of this id' };
    const { row: facts, price: catalogs } = entry;
    if (facts.disabled) return { model, unusable: 'it is disabled in the catalog' };
    if (!catalogs) return { model, unusable: 'it has no price' };
    const serving = connectors.filter(
      ({ row }) => row.provider === facts.provider && compileModelPatterns(row.models)(model),
    );
    for (const { row, unusable: why } of serving) {
      if (why !== undefined) unusable.push({ model, connectorId: row.id, why });
    }
    const accounts = serving.flatMap(({ row, unusable: why }): Account[] => {
      if (why !== undefined) return [];
      const own = negotiated.get(row.id)?.find(({ modelId }) => modelId === model)?.price;
      return [{ row, price: own ?? catalogs, priceSource: own ? 'connector' : 'catalog' }];
    });
    if (accounts.length === 0) return { model, unusable: 'no enabled connector serves it' };
    return {
      model,
      weight,
      contextWindow: facts.context_window,
      score: benchmarkScores(facts.benchmark_scores as Record<string, number>).avg_score,
      capabilities: facts.capabilities,
      ...observedOf(strata, workloadType, model),
      isAllowed: allowedByEach.every((allows) => allows(model)),
      connectors: accounts.map((account) => ({ connector: account, price: account.price })),
    };
  });
  return { offers, unusable };
}
