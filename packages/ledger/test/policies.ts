import type { Database, Policies } from '@weighbridge/database';
import type { Selectable } from 'kysely';

export type PolicyRow = Selectable<Policies>;

/** A policy with a counter per key and day in UTC, unless given. */
export async function insertPolicy(
  db: Database,
  id: string,
  fields: Partial<PolicyRow> & { readonly created_at: Date },
): Promise<PolicyRow> {
  return await db
    .insertInto('policies')
    .values({
      id,
      name: id,
      enforcement: 'enforce',
      window_kind: fields.window_kind ?? 'day',
      timezone: fields.timezone ?? 'UTC',
      limit_nano_usd: fields.limit_nano_usd ?? null,
      counter_scope: fields.counter_scope ?? 'key',
      ...(fields.limits !== undefined && { limits: JSON.stringify(fields.limits) }),
      counter_since: fields.created_at,
      created_at: fields.created_at,
      updated_at: fields.created_at,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** A key of a principal that counts in the counter of `counterKey`. */
export async function insertKey(
  db: Database,
  id: string,
  principal: string,
  counterKey: string = id,
): Promise<void> {
  const at = new Date('2026-01-01T00:00:00Z');
  await db
    .insertInto('principals')
    .values({ id: principal, created_at: at })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await db
    .insertInto('keys')
    .values({
      id,
      principal_id: principal,
      counter_key_id: counterKey,
      kind: 'service',
      name: id,
      key_hint: '',
      scopes: [],
      created_at: at,
      updated_at: at,
    })
    .execute();
}
