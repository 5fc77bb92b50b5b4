import { recordChange } from '../changes/changes.service.ts';
import { lockSealedUnderOtherKeys, updateConnector } from './connectors.repository.ts';
import { authSealContext, type ConnectorDeps, sealContext } from './connectors.service.ts';
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
    for (const row of rows) {
      const { id, credential_sealed, credential_kek_id, auth_sealed, auth_kek_id } = row;
      const key = reseal(sealer, credential_sealed, credential_kek_id, sealContext(id));
      const auth = reseal(sealer, auth_sealed, auth_kek_id, authSealContext(id));
      if (!key && !auth) continue;
      await updateConnector(tx, id, {
        ...(key && { credential_sealed: key.bytes, credential_kek_id: key.kekId }),
        ...(auth && { auth_sealed: auth.bytes, auth_kek_id: auth.kekId }),
      });
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

function reseal(sealer: Credentials['sealer'], bytes: Buffer | null, kekId: string | null, context: string) {
  if (bytes === null || kekId === null) return undefined;
  try {
    return sealer.reseal({ bytes, kekId }, context);
  } catch {
    return undefined;
  }
}
