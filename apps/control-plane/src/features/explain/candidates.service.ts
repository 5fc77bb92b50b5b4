import {
  compileModelPatterns,
  type NamedAtCloud,
  type Offer,
  observedOf,
  parseModelId,
  priceInRegion,
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
import { regionOf } from '../connectors/connectors.ts';
import type { PolicyRow } from '../policies/policies.service.ts';

/** A usable connector of a model, with its price. */
export interface Account {
  readonly row: ConnectorRow;
  readonly model: NamedAtCloud;
  readonly price: TokenPrices;
  readonly priceSource: 'catalog' | 'connector';
}

/** A connector that serves a model but is unusable. */
interface UnusableAccount {
  readonly model: string;
  readonly connectorId: string;
  readonly why: string;
}

/** The facts of a request that its candidates depend on. */
interface RequestFacts {
  readonly policies: readonly PolicyRow[];
  readonly workloadType: string;
  readonly strata: Strata | undefined;
}

/** The targets of a profile as a proxy has them now, and the connectors that are unusable, with the reason. */
export async function candidatesOf(
  deps: ConnectorDeps,
  { targets }: Pick<RoutingProfile, 'targets'>,
  { policies, workloadType, strata = () => undefined }: RequestFacts,
): Promise<{ candidates: Offer<Account>[]; unusable: UnusableAccount[] }> {
  const ids = targets.map(({ model }) => model);
  const providers = [...new Set(ids.flatMap((model) => parseModelId(model)?.provider ?? []))];
  const entries = await modelsWithPrices(deps.db, ids);
  const connectors = await connectorsWithUsability(deps, providers);
  const { prices: negotiated, unreadable } = await negotiatedPrices(
    deps.db,
    connectors.map(({ row }) => row.id),
  );
  const allowedByEach = policies.map((policy) => compileModelPatterns(policy.allowed_models));
  const unusable: UnusableAccount[] = [];

  const candidates = targets.map(({ model, weight }): Offer<Account> => {
    const entry = entries.get(model);
    if (!entry) return { model, unusable: 'the catalog has no model with this id' };
    const { row: facts, price: catalogPrice } = entry;
    if (facts.disabled) return { model, unusable: 'it is disabled in the catalog' };
    if (!catalogPrice || unreadable.has(model)) return { model, unusable: 'it has no price' };
    const serving = connectors.filter(
      ({ row }) => row.provider === facts.provider && compileModelPatterns(row.models)(model),
    );
    for (const { row, unusable: why } of serving) {
      if (why !== undefined) unusable.push({ model, connectorId: row.id, why });
    }
    const accounts = serving.flatMap(({ row, unusable: why }): Account[] => {
      if (why !== undefined) return [];
      const negotiatedPrice = negotiated.get(row.id)?.find(({ modelId }) => modelId === model)?.price;
      return [
        {
          row,
          model: { id: model, upstreamName: upstreamNameAt(row, facts) },
          price: priceInRegion(negotiatedPrice ?? catalogPrice, regionOf(row)),
          priceSource: negotiatedPrice ? 'connector' : 'catalog',
        },
      ];
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
  return { candidates, unusable };
}

function upstreamNameAt(
  { upstream_names }: ConnectorRow,
  { id, upstream_name }: { readonly id: string; readonly upstream_name: string },
): string {
  const names = upstream_names as Record<string, string>;
  return (Object.hasOwn(names, id) && names[id]) || upstream_name;
}
