import { recordChange } from '../changes/changes.service.ts';
import { lockSealedUnderOtherKeys, updateConnector } from './connectors.repository.ts';
import { type ConnectorDeps, sealContext } from './connectors.service.ts';
import type { Credentials } from './credentials.ts';

/**
 * Seals every stored credential again under the current key-encryption key, so that previous keys can be removed.
 * Returns how many it resealed, and how many it could not open.
 */
export async function resealCredentials(
  { db, credentials: { sealer } }: ConnectorDeps,
  now: Date,
): Promise<{ resealed: number; unopened: number }> {
  const kekId = sealer.currentKekId;
  if (kekId === undefined) return { resealed: 0, unopened: 0 };
  return await db.transaction().execute(async (tx) => {
    const rows = await lockSealedUnderOtherKeys(tx, kekId);
    const ids: string[] = [];
    for (const { id, credential_sealed: bytes, credential_kek_id: from } of rows) {
      const sealed = bytes && from && reseal(sealer, { bytes, kekId: from }, sealContext(id));
      if (!sealed) continue;
      await updateConnector(tx, id, { credential_sealed: sealed.bytes, credential_kek_id: sealed.kekId });
      ids.push(id);
    }
    if (ids.length > 0) {
      const actor = { principalId: 'environment', identity: null };
      const detail = { connectors: ids, kek_id: kekId };
      await recordChange(tx, {
        actor,
        action: 'credentials.resealed',
        resourceId: 'connectors',
        detail,
        at: now,
      });
    }
    return { resealed: ids.length, unopened: rows.length - ids.length };
  });
}

function reseal(sealer: Credentials['sealer'], sealed: { bytes: Buffer; kekId: string }, context: string) {
  try {
    return sealer.reseal(sealed, context);
  } catch {
    return undefined;
  }
}
