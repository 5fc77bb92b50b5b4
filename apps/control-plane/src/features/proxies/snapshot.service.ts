import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SnapshotSchema } from '@weighbridge/contracts';
import { type ConnectorColumns, snapshotMessage } from '@weighbridge/state';
import { routedAliases } from '../aliases/aliases.service.ts';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import type { PricedModel } from '../catalog/catalog.service.ts';
import { currentRevision } from '../changes/changes.service.ts';
import type { NegotiatedPrice } from '../connectors/connectorPrices.service.ts';
import { type UsableConnector, usableConnectors } from '../connectors/connectors.service.ts';
import { headersOf, routesOf } from '../connectors/providers.ts';
import { type ModelDeps, servedModels, unservedModels } from '../models/models.service.ts';
import { routingProfiles } from '../profiles/profiles.service.ts';

/** Everything that a proxy needs besides keys, at one revision. */
export async function readSnapshot(deps: ModelDeps): Promise<MessageInitShape<typeof SnapshotSchema>> {
  return await deps.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      const snapshot = { ...deps, db: tx };
      const revision = await currentRevision(tx);
      const connectors = await usableConnectors(snapshot);
      const { models, negotiated } = await servedModels(tx, connectors);
      return snapshotMessage({
        revision,
        connectors: connectors.map((row) => connectorForProxies(row, negotiated.get(row.id) ?? [])),
        models: models.map((row) => ({ ...row, avgScore: averageScore(row) })),
        unserved: await unservedModels(tx, models),
        profiles: await routingProfiles(tx),
        aliases: await routedAliases(tx),
      });
    });
}

export function connectorForProxies(
  row: UsableConnector,
  negotiated: readonly NegotiatedPrice[],
): ConnectorColumns {
  const forwardHeaders = [...headersOf(row.provider), ...row.forward_headers];
  return { ...row, negotiated, routes: routesOf(row), forwardHeaders };
}

function averageScore({ benchmark_scores }: PricedModel): number | undefined {
  return benchmarkScores(benchmark_scores as Record<string, number>).avg_score;
}
