import { isId, newId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { attemptDelivery } from './attempt.service.ts';
import {
  CLAIM_MS,
  type DeliveryRow,
  findDeliveries,
  findDelivery,
  restartDelivery,
} from './deliveries.repository.ts';
import { GIVE_UP_AFTER_MS } from './dispatch.service.ts';
import {
  type DeliveryQuery,
  TEST_EVENT,
  type WebhookDelivery,
  type WebhookTest,
} from './webhooks.schemas.ts';
import { existingWebhook, type WebhookDeps } from './webhooks.service.ts';

export async function existingDelivery(
  deps: Pick<WebhookDeps, 'db'>,
  webhookId: string,
  id: string,
): Promise<DeliveryRow> {
  await existingWebhook(deps.db, webhookId);
  const found = isId('whd', id) ? await findDelivery(deps.db, webhookId, id) : undefined;
  if (found) return found;
  throw new AppError('not_found', 'delivery_not_found', 'This webhook has no delivery with this id.', {
    param: 'delivery_id',
  });
}

export async function listDeliveries(
  deps: WebhookDeps,
  webhookId: string,
  query: DeliveryQuery,
): Promise<PageOf<WebhookDelivery>> {
  const request = pageRequest('webhook_deliveries', query, positionOf(part.id('whd')));
  const filter = { webhookId, state: query.state };
  const rows = await findDeliveries(deps.db, filter, request.after?.[0], request.size + 1);
  return page('webhook_deliveries', request, rows, (row) => [row.id], toDelivery);
}

/** Sends a delivery's message again soon, with the same id. */
export async function redeliver(deps: WebhookDeps, webhookId: string, id: string): Promise<WebhookDelivery> {
  const { enabled } = await existingWebhook(deps.db, webhookId);
  if (!enabled) {
    const message = 'The webhook is disabled. Enable it first; what is pending is then sent.';
    throw new AppError('conflict', 'webhook_disabled', message);
  }
  const now = deps.now();
  await restartDelivery(deps.db, id, now, new Date(now.getTime() + GIVE_UP_AFTER_MS));
  return toDelivery(await existingDelivery(deps, webhookId, id));
}

/** Sends a message now, once, whether or not the webhook is enabled. */
export async function testWebhook(deps: WebhookDeps, webhookId: string): Promise<WebhookTest> {
  const webhook = await existingWebhook(deps.db, webhookId);
  const now = deps.now();
  const [eventId, id] = [newId('evt'), newId('whd')];
  await deps.db.transaction().execute(async (tx) => {
    const data = { webhook_id: webhook.id, webhook_name: webhook.name };
    await tx
      .insertInto('webhook_events')
      .values({
        id: eventId,
        type: TEST_EVENT,
        once_key: eventId,
        data: JSON.stringify(data),
        created_at: now,
        dispatched_at: now,
      })
      .execute();
    await tx
      .insertInto('webhook_deliveries')
      .values({
        id,
        webhook_id: webhookId,
        event_id: eventId,
        state: 'pending',
        attempts: 1,
        next_attempt_at: new Date(now.getTime() + CLAIM_MS),
        last_attempt_at: now,
        created_at: now,
        give_up_at: now,
      })
      .execute();
  });
  const delivery =
    (await findDelivery(deps.db, webhookId, id)) ?? raise(new Error('the delivery disappeared'));
  const { status, durationMs, error } = await attemptDelivery(deps, webhook, delivery);
  return {
    ok: error === undefined,
    status,
    latency_ms: durationMs,
    message: error ?? 'The endpoint accepted the message.',
    delivery_id: id,
  };
}

function toDelivery(row: DeliveryRow): WebhookDelivery {
  return {
    id: row.id,
    webhook_id: row.webhook_id,
    event: {
      id: row.event_id,
      type: row.type,
      timestamp: row.event_at.toISOString(),
      data: row.data as Record<string, unknown>,
    },
    state: row.state,
    attempts: row.attempts,
    next_attempt_at: row.next_attempt_at?.toISOString() ?? null,
    last_attempt_at: row.last_attempt_at?.toISOString() ?? null,
    status: row.status,
    duration_ms: row.duration_ms,
    error: row.error,
    created_at: row.created_at.toISOString(),
  };
}
