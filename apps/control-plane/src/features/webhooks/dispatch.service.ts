import type { Database } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import { type CompletedEvent, completeEvents } from './completeEvents.service.ts';
import { countPending, lockWaitingEvents } from './deliveries.repository.ts';
import type { EventData } from './describeEvent.ts';
import type { WebhookRow } from './webhooks.repository.ts';

const EVENTS_AT_ONCE = 100;
/** Of one webhook. What comes on top is given up at once, and listed so. */
const MAX_PENDING = 10_000;
/** For how long a message is tried. */
export const GIVE_UP_AFTER_MS = 24 * 3_600_000;

export interface DispatchDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** The address of the deployment for people; undefined: links are paths. */
  readonly publicUrl: string | undefined;
}

/**
 * Makes the deliveries of waiting events, once however many control planes do this: an event, its deliveries and the mark that
 * they exist are one transaction. Returns how many events there were.
 */
export async function dispatchEvents({ db, now, publicUrl }: DispatchDeps): Promise<number> {
  return await db.transaction().execute(async (tx) => {
    const events = await lockWaitingEvents(tx, EVENTS_AT_ONCE);
    if (events.length === 0) return 0;
    const webhooks = await tx.selectFrom('webhooks').selectAll().where('enabled', '=', true).execute();
    const pending = await countPending(tx);
    const completed = await completeEvents(tx, events as { data: EventData }[], publicUrl);
    const at = now();
    for (const [index, { id, type }] of events.entries()) {
      const event = completed[index] ?? { data: {}, policyIds: [], teamIds: [] };
      const wanting = webhooks.filter((webhook) => isWanted(webhook, type, event));
      if (wanting.length > 0) {
        const rows = wanting.map((webhook) => deliveryRow(webhook.id, id, pending, at));
        await tx.insertInto('webhook_deliveries').values(rows).execute();
      }
      await tx
        .updateTable('webhook_events')
        .set({ data: JSON.stringify(event.data), dispatched_at: at })
        .where('id', '=', id)
        .execute();
    }
    return events.length;
  });
}

function isWanted(webhook: WebhookRow, type: string, { policyIds, teamIds }: CompletedEvent): boolean {
  if (webhook.events.length > 0 && !webhook.events.includes(type)) return false;
  return passes(webhook.policy_ids, policyIds) && passes(webhook.team_ids, teamIds);
}

/** Whether what an event concerns is among what a filter names. An empty filter lets everything pass. */
function passes(wanted: readonly string[], ids: readonly string[]): boolean {
  return wanted.length === 0 || wanted.some((id) => ids.includes(id));
}

function deliveryRow(webhookId: string, eventId: string, pending: Map<string, number>, at: Date) {
  const count = pending.get(webhookId) ?? 0;
  pending.set(webhookId, count + 1);
  const isFull = count >= MAX_PENDING;
  return {
    id: newId('whd'),
    webhook_id: webhookId,
    event_id: eventId,
    state: isFull ? ('given_up' as const) : ('pending' as const),
    next_attempt_at: isFull ? null : at,
    error: isFull ? `${MAX_PENDING} earlier messages are still pending` : null,
    created_at: at,
    give_up_at: new Date(at.getTime() + GIVE_UP_AFTER_MS),
  };
}
