import type { Database, QuarantinedUsage } from '@weighbridge/database';
import type { Selectable } from 'kysely';

export type QuarantinedRow = Selectable<QuarantinedUsage>;
/** Without the payload. */
export type QuarantineEntry = Omit<QuarantinedRow, 'payload' | 'payload_sha256'>;

export interface QuarantinePage {
  readonly state?: 'held' | 'released' | 'discarded' | undefined;
  /** The last id of the previous page. */
  readonly after?: bigint | undefined;
  readonly limit: number;
}

/** Usage that is or was in quarantine, the oldest first. */
export async function listQuarantine(
  db: Database,
  { state, after, limit }: QuarantinePage,
): Promise<QuarantineEntry[]> {
  let page = db
    .selectFrom('quarantined_usage')
    .select(['id', 'kind', 'state', 'reason', 'received_at', 'producer_id', 'epoch', 'shard', 'n'])
    .select(['principal_id', 'resolved_at', 'resolved_by', 'note'])
    .orderBy('id')
    .limit(limit);
  if (state !== undefined) page = page.where('state', '=', state);
  if (after !== undefined) page = page.where('id', '>', after);
  return await page.execute();
}

export async function findQuarantined(db: Database, id: bigint): Promise<QuarantinedRow | undefined> {
  return await db.selectFrom('quarantined_usage').selectAll().where('id', '=', id).executeTakeFirst();
}

export interface Discard {
  readonly id: bigint;
  readonly by: string;
  /** Why it is not spend, for operators. */
  readonly note: string;
  readonly now: Date;
}

/** Marks quarantined usage as not being spend. The row stays. Undefined if nothing is held under this id. */
export async function discardQuarantined(
  db: Database,
  { id, by, note, now }: Discard,
): Promise<QuarantinedRow | undefined> {
  return await db
    .updateTable('quarantined_usage')
    .set({ state: 'discarded', resolved_by: by, resolved_at: now, note })
    .where('id', '=', id)
    .where('state', '=', 'held')
    .returningAll()
    .executeTakeFirst();
}
