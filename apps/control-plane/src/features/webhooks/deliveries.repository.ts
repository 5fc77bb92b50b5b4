import type { Database, Tx, WebhookDeliveries } from '@weighbridge/database';
import { type Selectable, sql, type Updateable } from 'kysely';

type DeliveryColumns = Selectable<WebhookDeliveries>;

/** A delivery with its event. */
export interface DeliveryRow extends DeliveryColumns {
  readonly type: string;
  readonly data: unknown;
  readonly event_at: Date;
}

/** A sender that dies in an attempt is followed by another after this time: longer than an attempt takes. */
export const CLAIM_MS = 15_000;

function deliveries(db: Database) {
  return db
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .selectAll('webhook_deliveries')
    .select(['webhook_events.type', 'webhook_events.data', 'webhook_events.created_at as event_at']);
}

export async function findDelivery(
  db: Database,
  webhookId: string,
  id: string,
): Promise<DeliveryRow | undefined> {
  return await deliveries(db)
    .where('webhook_deliveries.webhook_id', '=', webhookId)
    .where('webhook_deliveries.id', '=', id)
    .executeTakeFirst();
}

/** A page of a webhook's deliveries, newest first. */
export async function findDeliveries(
  db: Database,
  { webhookId, state }: { readonly webhookId: string; readonly state?: DeliveryColumns['state'] | undefined },
  before: string | undefined,
  limit: number,
): Promise<DeliveryRow[]> {
  return await deliveries(db)
    .where('webhook_id', '=', webhookId)
    .$if(state !== undefined, (query) => query.where('state', '=', state ?? 'pending'))
    .$if(before !== undefined, (query) => query.where('webhook_deliveries.id', '<', before ?? ''))
    .orderBy('webhook_deliveries.id', 'desc')
    .limit(limit)
    .execute();
}

/** The enabled webhooks that have deliveries to attempt. */
export async function findDueWebhooks(db: Database, now: Date): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    SELECT id FROM webhooks
    WHERE enabled AND EXISTS (
      SELECT FROM webhook_deliveries
      WHERE webhook_id = webhooks.id AND state = 'pending' AND next_attempt_at <= ${now}
    )`.execute(db);
  return rows.map(({ id }) => id);
}

/** Takes the delivery of a webhook that is due first, for one attempt. */
export async function claimDelivery(
  db: Database,
  webhookId: string,
  now: Date,
): Promise<DeliveryRow | undefined> {
  const { rows } = await sql<{ id: string }>`
    UPDATE webhook_deliveries
    SET attempts = attempts + 1, last_attempt_at = ${now}, next_attempt_at = ${new Date(now.getTime() + CLAIM_MS)}
    WHERE id = (
      SELECT id FROM webhook_deliveries
      WHERE webhook_id = ${webhookId} AND state = 'pending' AND next_attempt_at <= ${now}
      ORDER BY next_attempt_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING id`.execute(db);
  const [row] = rows;
  return row && (await findDelivery(db, webhookId, row.id));
}

/** Records how an attempt went. False: another sender has made a later one. */
export async function recordAttempt(
  db: Database,
  { id, attempts }: Pick<DeliveryColumns, 'id' | 'attempts'>,
  outcome: Updateable<WebhookDeliveries>,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('webhook_deliveries')
    .set(outcome)
    .where('id', '=', id)
    .where('attempts', '=', attempts)
    .where('state', '=', 'pending')
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}

/** Has a delivery attempted again from now on, as if it were new. */
export async function restartDelivery(db: Database, id: string, now: Date, giveUpAt: Date): Promise<void> {
  await db
    .updateTable('webhook_deliveries')
    .set({ state: 'pending', attempts: 0, next_attempt_at: now, give_up_at: giveUpAt })
    .where('id', '=', id)
    .execute();
}

export interface WaitingEvent {
  readonly id: string;
  readonly type: string;
  readonly data: unknown;
}

/** Events without deliveries, which no other transaction is making. */
export async function lockWaitingEvents(tx: Tx, limit: number): Promise<WaitingEvent[]> {
  return await tx
    .selectFrom('webhook_events')
    .select(['id', 'type', 'data'])
    .where('dispatched_at', 'is', null)
    .orderBy('id')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute();
}

/** How many deliveries of each webhook are pending. */
export async function countPending(db: Database): Promise<Map<string, number>> {
  const { rows } = await sql<{ webhook_id: string; count: number }>`
    SELECT webhook_id, count(*)::integer AS count FROM webhook_deliveries WHERE state = 'pending' GROUP BY webhook_id`.execute(
    db,
  );
  return new Map(rows.map(({ webhook_id, count }) => [webhook_id, count]));
}

/** Gives up what no attempt is made of any more: of disabled webhooks too. Returns how many those are. */
export async function giveUpOverdue(db: Database, now: Date): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    UPDATE webhook_deliveries
    SET state = 'given_up', next_attempt_at = NULL, error = coalesce(error, 'the webhook was disabled')
    WHERE state = 'pending' AND next_attempt_at <= ${now} AND give_up_at <= ${now}`.execute(db);
  return Number(numAffectedRows);
}

/**
 * Deletes old events with their deliveries. No window is as long, except one without an end: what is said once in it must be
 * remembered.
 */
export async function pruneEvents(db: Database, before: Date): Promise<void> {
  await sql`
    DELETE FROM webhook_events
    WHERE created_at < ${before} AND data->>'window' IS DISTINCT FROM 'none'`.execute(db);
}
