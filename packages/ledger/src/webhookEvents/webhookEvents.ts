import { arrayLiteral, type Database } from '@weighbridge/database';
import { newId } from '@weighbridge/domain';
import { sql } from 'kysely';

/** What webhooks can be told of. */
export const WEBHOOK_EVENTS = [
  'budget.threshold',
  'budget.exhausted',
  'connector.down',
  'price.missing',
  'price.stale',
  'usage.quarantined',
  'usage.gap',
  'key.expiring',
  'feed.refused',
] as const;
export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

export interface NewWebhookEvent {
  readonly type: WebhookEventType;
  /** Names what happened: of all events of the type with the same key, the first counts. */
  readonly onceKey: string;
  /** Ids, times and amounts. The control plane adds names and links when it sends the event. */
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * Records events in the outbox of webhooks, in the transaction that makes them happen; a repeated one is not recorded again.
 * Without an enabled webhook that wants it an event is not recorded at all: what lasts, such as a price that is too old, is
 * reported once there is one.
 */
export async function recordWebhookEvents(
  db: Database,
  events: readonly NewWebhookEvent[],
  now: Date,
): Promise<void> {
  if (events.length === 0) return;
  // In one order everywhere, so that no two transactions wait for each other.
  const sorted = [...events].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  await sql`
    INSERT INTO webhook_events (id, type, once_key, data, created_at)
    SELECT id, type, once_key, data, ${now}
    FROM unnest(
      ${arrayLiteral(sorted.map(() => newId('evt')))}::text[], ${arrayLiteral(sorted.map(({ type }) => type))}::text[],
      ${arrayLiteral(sorted.map(({ onceKey }) => onceKey))}::text[],
      ${arrayLiteral(sorted.map(({ data }) => JSON.stringify(data)))}::jsonb[]
    ) AS event (id, type, once_key, data)
    WHERE EXISTS (
      SELECT FROM webhooks WHERE enabled AND (events = '{}' OR event.type = ANY (events))
    )
    ON CONFLICT (type, once_key) DO NOTHING`.execute(db);
}

function orderOf({ type, onceKey }: NewWebhookEvent): string {
  return `${type} ${onceKey}`;
}
