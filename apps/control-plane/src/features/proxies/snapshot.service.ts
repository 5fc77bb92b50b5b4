import type { MessageInitShape } from '@bufbuild/protobuf';
import type { SnapshotSchema } from '@weighbridge/contracts';
import { routedAliases } from '../aliases/aliases.service.ts';
import { currentRevision } from '../changes/changes.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { usableConnectors } from '../connectors/connectors.service.ts';
import { type ModelDeps, servedModels, unservedModels } from '../models/models.service.ts';
import { routingProfiles } from '../profiles/profiles.service.ts';
import { connectorMessage, modelMessage, profileMessage } from './messages.ts';

/** Everything that a proxy needs besides keys, at one revision. */
export async function readSnapshot(deps: ModelDeps): Promise<MessageInitShape<typeof SnapshotSchema>> {
  return await deps.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      const snapshot = { ...deps, db: tx };
      const revision = await currentRevision(tx);
      const connectors = await usableConnectors(snapshot);
      const prices = await negotiatedPrices(
        tx,
        connectors.map(({ id }) => id),
      );
      const models = await servedModels(tx, connectors);
      return {
        revision,
        connectors: connectors.map((row) => connectorMessage(row, prices.get(row.id) ?? [])),
        models: models.map(modelMessage),
        unservedModels: (await unservedModels(tx, models)).map(({ id, other_names, own }) => {
          return { id, otherNames: [...other_names], own };
        }),
        profiles: (await routingProfiles(tx)).map(profileMessage),
        aliases: await routedAliases(tx),
      };
    });
}
