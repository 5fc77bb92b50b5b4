import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Sealed, Sealer } from '../../sealing/envelope.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { lockSealedUnderOtherKeys, updateWebhook, type WebhookRow } from './webhooks.repository.ts';

export interface Secrets {
  readonly credentials: { readonly sealer: Sealer };
}

type SecretKind = 'secret' | 'routing_key';

/** Seals a secret of a webhook. Throws a 422 if the deployment has no key for that. */
export function seal({ credentials }: Secrets, kind: SecretKind, webhookId: string, secret: string): Sealed {
  if (credentials.sealer.currentKekId !== undefined) {
    return credentials.sealer.seal(secret, placeOf(kind, webhookId));
  }
  throw new AppError(
    'validation',
    'key_encryption_key_required',
    'The control plane has no key to seal the secrets of webhooks with. Set WEIGHBRIDGE_KEY_ENCRYPTION_KEY (for example the output of `openssl rand -base64 32`).',
  );
}

/** The secrets that its messages are signed with now, the newest first. Throws if one can't be opened. */
export function signingSecrets(deps: Secrets, row: WebhookRow, now: Date): string[] {
  const current = opened(deps, 'secret', row.id, row.secret_sealed, row.secret_kek_id);
  const { previous_secret_sealed: bytes, previous_secret_kek_id: kekId, previous_secret_until: until } = row;
  if (bytes === null || kekId === null || until === null || until <= now) return [current];
  return [current, opened(deps, 'secret', row.id, bytes, kekId)];
}

export function routingKeyOf(deps: Secrets, row: WebhookRow): string | undefined {
  const { routing_key_sealed: bytes, routing_key_kek_id: kekId } = row;
  return bytes === null || kekId === null ? undefined : opened(deps, 'routing_key', row.id, bytes, kekId);
}

function opened(
  { credentials }: Secrets,
  kind: SecretKind,
  id: string,
  bytes: Buffer,
  kekId: string,
): string {
  const secret = credentials.sealer.open({ bytes, kekId }, placeOf(kind, id));
  if (secret !== undefined) return secret;
  throw new Error('its secret is sealed under a key-encryption key that is not configured');
}

function placeOf(kind: SecretKind, webhookId: string): string {
  return `webhook ${kind} ${webhookId}`;
}

/** Seals every secret again under the current key-encryption key, so that previous keys can be removed. */
export async function resealWebhooks(
  { db, credentials: { sealer } }: Secrets & { readonly db: Database },
  now: Date,
): Promise<{ resealed: number; unopened: number }> {
  const kekId = sealer.currentKekId;
  if (kekId === undefined) return { resealed: 0, unopened: 0 };
  return await db.transaction().execute(async (tx) => {
    const rows = await lockSealedUnderOtherKeys(tx, kekId);
    const ids: string[] = [];
    for (const row of rows) {
      const reseal = (bytes: Buffer | null, of: string | null, kind: SecretKind) =>
        bytes === null || of === null
          ? undefined
          : sealer.reseal({ bytes, kekId: of }, placeOf(kind, row.id));
      const current = reseal(row.secret_sealed, row.secret_kek_id, 'secret');
      const previous = reseal(row.previous_secret_sealed, row.previous_secret_kek_id, 'secret');
      const routingKey = reseal(row.routing_key_sealed, row.routing_key_kek_id, 'routing_key');
      if (!current) continue;
      await updateWebhook(tx, row.id, {
        secret_sealed: current.bytes,
        secret_kek_id: current.kekId,
        ...(previous && { previous_secret_sealed: previous.bytes, previous_secret_kek_id: previous.kekId }),
        ...(routingKey && { routing_key_sealed: routingKey.bytes, routing_key_kek_id: routingKey.kekId }),
      });
      ids.push(row.id);
    }
    if (ids.length > 0) {
      const actor = { principalId: 'environment', identity: null };
      const detail = { webhooks: ids, kek_id: kekId };
      await recordAudit(tx, {
        actor,
        action: 'credentials.resealed',
        resourceId: 'webhooks',
        detail,
        at: now,
      });
    }
    return { resealed: ids.length, unopened: rows.length - ids.length };
  });
}
