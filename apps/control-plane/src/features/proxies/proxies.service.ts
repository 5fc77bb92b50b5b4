import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ResolveResponseSchema, SnapshotSchema } from '@weighbridge/contracts';
import { bucketKey, readSpent } from '@weighbridge/ledger';
import { currentRevision } from '../changes/changes.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { usableConnectors } from '../connectors/connectors.service.ts';
import { findKeyByTokenSha256 } from '../keys/keys.service.ts';
import { type ModelDeps, servedModels } from '../models/models.service.ts';
import { countersOf } from '../policies/policies.service.ts';
import { connectorMessage, keyMessage, modelMessage } from './messages.ts';

/** How long a proxy may go on with what it heard of a key: nobody tells it of changes in between. */
const KEY_MAX_AGE_MS = 1_000;

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
      return {
        revision,
        connectors: connectors.map((row) => connectorMessage(row, prices.get(row.id) ?? [])),
        models: (await servedModels(tx, connectors)).map(modelMessage),
      };
    });
}

export async function resolveKey(
  deps: ModelDeps,
  tokenSha256: Uint8Array,
): Promise<MessageInitShape<typeof ResolveResponseSchema>> {
  const row = await findKeyByTokenSha256(deps, tokenSha256);
  const revision = await currentRevision(deps.db);
  if (!row) return { revision, maxAgeMs: 0 };
  const { counters } = await countersOf(deps.db, row, deps.now());
  const spent = await readSpent(
    deps.db,
    counters.map((counter) => counter.bucket),
  );
  const key = keyMessage(row, counters, (counter) => spent.get(bucketKey(counter.bucket)) ?? 0n);
  return { key, revision, maxAgeMs: KEY_MAX_AGE_MS };
}
