import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutableConnector, RoutableModel, RoutingTable } from '../control/routingTable.ts';
import { servingConnectors } from '../routing/modelTargets.ts';
import { nearestNames } from '../routing/nearestNames.ts';
import { policyIdsOf } from './resolveModel.ts';

/**
 * Names of models that the key may use at such a connector, the most similar first: by ids, aliases, their other names
 * behind the provider, and the names that vendors give them.
 */
export function nearestModels(
  key: ResolvedKey,
  wanted: string,
  table: RoutingTable,
  isUsable: (connector: RoutableConnector) => boolean = () => true,
): string[] {
  const models = [...table.models.values()];
  const isReachable = (model: RoutableModel | undefined) =>
    model !== undefined &&
    key.policies.every((policy) => policy.allows(model.id)) &&
    servingConnectors(model, table).some(isUsable);
  const upstream = models.find(
    (model) => model.upstreamName.toLowerCase() === wanted.toLowerCase() && isReachable(model),
  );
  if (upstream) return [upstream.id];
  const byName = new Map<string, RoutableModel>();
  for (const model of models) {
    for (const name of model.otherNames) byName.set(`${model.provider}/${name}`, model);
  }
  for (const model of models) byName.set(model.id, model);
  for (const { name, target } of table.names.aliasesOf(policyIdsOf(key, table))) {
    const model = table.models.get(target);
    if (model) byName.set(name, model);
  }
  const suggested = new Set<RoutableModel>();
  return nearestNames(wanted, byName.keys(), (name) => {
    const model = byName.get(name);
    // One name of each model is enough.
    if (!model || suggested.has(model) || !isReachable(model)) return false;
    suggested.add(model);
    return true;
  });
}
