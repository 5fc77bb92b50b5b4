import type { Database, Tx, Webhooks } from '@weighbridge/database';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import { containsText } from '../../shared/containsText.ts';

export type WebhookRow = Selectable<Webhooks>;

export async function findWebhook(db: Database, id: string): Promise<WebhookRow | undefined> {
  return await db.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirst();
}

export async function lockWebhook(tx: Tx, id: string): Promise<WebhookRow | undefined> {
  return await tx.selectFrom('webhooks').selectAll().where('id', '=', id).forUpdate().executeTakeFirst();
}

/** A page of webhooks by name. */
export async function findWebhooks(
  db: Database,
  filter: { readonly nameContains?: string | undefined; readonly enabled?: boolean | undefined },
  after: string | undefined,
  limit: number,
): Promise<WebhookRow[]> {
  const { nameContains, enabled } = filter;
  return await db
    .selectFrom('webhooks')
    .selectAll()
    .$if(nameContains !== undefined, (query) => query.where(containsText('name', nameContains ?? '')))
    .$if(enabled !== undefined, (query) => query.where('enabled', '=', enabled ?? true))
    .$if(after !== undefined, (query) => query.where('name', '>', after ?? ''))
    .orderBy('name')
    .limit(limit)
    .execute();
}

/** Until the commit, no other webhook is created. Undefined: the name is taken. */
export async function insertWebhook(tx: Tx, row: Insertable<Webhooks>): Promise<WebhookRow | undefined> {
  return await tx
    .insertInto('webhooks')
    .values(row)
    .onConflict((conflict) => conflict.column('name').doNothing())
    .returningAll()
    .executeTakeFirst();
}

export async function updateWebhook(tx: Tx, id: string, changes: Updateable<Webhooks>): Promise<WebhookRow> {
  return await tx
    .updateTable('webhooks')
    .set(changes)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function isNameTaken(tx: Tx, name: string, exceptId: string): Promise<boolean> {
  const row = await tx
    .selectFrom('webhooks')
    .select('id')
    .where('name', '=', name)
    .where('id', '<>', exceptId)
    .executeTakeFirst();
  return row !== undefined;
}

export async function removeWebhook(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('webhooks').where('id', '=', id).execute();
}

export async function lockWebhooks(tx: Tx): Promise<number> {
  await sql`LOCK TABLE webhooks IN SHARE ROW EXCLUSIVE MODE`.execute(tx);
  const { count } = await tx
    .selectFrom('webhooks')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Webhooks with a secret under another key-encryption key. */
export async function lockSealedUnderOtherKeys(tx: Tx, kekId: string): Promise<WebhookRow[]> {
  return await tx
    .selectFrom('webhooks')
    .selectAll()
    .where((eb) =>
      eb.or([
        eb('secret_kek_id', '<>', kekId),
        eb('previous_secret_kek_id', '<>', kekId),
        eb('routing_key_kek_id', '<>', kekId),
      ]),
    )
    .orderBy('id')
    .forUpdate()
    .execute();
}

/** How the deliveries of a webhook go. */
export interface WebhookHealth {
  readonly webhook_id: string;
  readonly pending: number;
  readonly last_delivered_at: Date | null;
  readonly last_error: string | null;
}

export async function findHealth(db: Database, ids: readonly string[]): Promise<Map<string, WebhookHealth>> {
  const { rows } = await sql<WebhookHealth>`
    SELECT webhook_id, count(*) FILTER (WHERE state = 'pending')::integer AS pending,
      max(last_attempt_at) FILTER (WHERE state = 'delivered') AS last_delivered_at,
      (array_agg(error ORDER BY last_attempt_at DESC NULLS LAST))[1] AS last_error
    FROM webhook_deliveries WHERE webhook_id = ANY (${[...ids]}::text[])
    GROUP BY webhook_id`.execute(db);
  return new Map(rows.map((row) => [row.webhook_id, row]));
}
