import { nearestModels as nearestOf } from '@weighbridge/domain';
import type { ResolvedKey, RoutableConnector, RoutingTable } from '@weighbridge/state';
import { policyIdsOf } from '../routing/allowedModels.ts';
import { servingConnectors } from '../routing/modelTargets.ts';

/** Names of models that the key may use at such a connector, the most similar first. */
export function nearestModels(
  key: ResolvedKey,
  wanted: string,
  table: RoutingTable,
  isUsable: (connector: RoutableConnector) => boolean = () => true,
): string[] {
  const aliases = table.names.aliasesOf(policyIdsOf(key, table));
  return nearestOf(
    wanted,
    table.models.values(),
    aliases,
    (model) =>
      key.policies.every((policy) => policy.allows(model.id)) &&
      servingConnectors(model, table).some(isUsable),
  );
}
