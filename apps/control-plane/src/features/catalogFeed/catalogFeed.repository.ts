import {
  arrayLiteral,
  type CatalogFeed,
  type CatalogFeedChanges,
  type Database,
  type Tx,
} from '@weighbridge/database';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';

export type FeedRow = Selectable<CatalogFeed>;
export type FeedChangeRow = Selectable<CatalogFeedChanges>;
export type FeedChangeState = FeedChangeRow['state'];

/** Prepares the row for the configured feed. Another feed than before is due at once, and forgets what was read. */
export async function configureFeed(
  db: Database,
  { url, hash, now }: { readonly url: string; readonly hash: string; readonly now: Date },
): Promise<void> {
  const fresh = { url, url_sha256: hash, next_fetch_at: now, etag: null, content: null };
  await db
    .insertInto('catalog_feed')
    .values(fresh)
    .onConflict((conflict) =>
      conflict
        .column('only_one')
        .doUpdateSet({
          ...fresh,
          result: null,
          error: null,
          succeeded_at: null,
          failing_since: null,
          fetched_at: null,
        })
        .where('catalog_feed.url_sha256', '<>', hash),
    )
    .execute();
}

export async function findFeed(db: Database): Promise<FeedRow | undefined> {
  return await db.selectFrom('catalog_feed').selectAll().executeTakeFirst();
}

/** As `findFeed`, and locks it: fetches are applied one after the other. */
export async function lockFeed(tx: Tx): Promise<FeedRow | undefined> {
  return await tx.selectFrom('catalog_feed').selectAll().forUpdate().executeTakeFirst();
}

/** Takes the fetch that is due, for one control plane; false if none is, or another took it. */
export async function claimFetch(db: Database, now: Date, until: Date): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('catalog_feed')
    .set({ next_fetch_at: until })
    .where('next_fetch_at', '<=', now)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export async function updateFeed(db: Database, changes: Updateable<CatalogFeed>): Promise<void> {
  await db.updateTable('catalog_feed').set(changes).execute();
}

export async function insertFeedChanges(
  tx: Tx,
  rows: readonly Insertable<CatalogFeedChanges>[],
): Promise<void> {
  if (rows.length > 0) await tx.insertInto('catalog_feed_changes').values(rows).execute();
}

export async function findHeldChanges(db: Database): Promise<FeedChangeRow[]> {
  return await db.selectFrom('catalog_feed_changes').selectAll().where('state', '=', 'held').execute();
}

export async function countHeldChanges(db: Database): Promise<number> {
  const row = await db
    .selectFrom('catalog_feed_changes')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('state', '=', 'held')
    .executeTakeFirstOrThrow();
  return Number(row.count);
}

/** The last change of each model that a person decided about. */
export async function findLastDecisions(tx: Tx): Promise<FeedChangeRow[]> {
  return await tx
    .selectFrom('catalog_feed_changes')
    .selectAll()
    .distinctOn('model_id')
    .where('state', 'in', ['approved', 'rejected'])
    .orderBy('model_id')
    .orderBy('decided_at', 'desc')
    .execute();
}

export async function decideChanges(
  tx: Tx,
  ids: readonly string[],
  state: FeedChangeState,
  now: Date,
): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable('catalog_feed_changes')
    .set({ state, decided_at: now })
    .where('id', 'in', ids)
    .execute();
}

export async function lockChange(tx: Tx, id: string): Promise<FeedChangeRow | undefined> {
  return await tx
    .selectFrom('catalog_feed_changes')
    .selectAll()
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
}

export async function findChange(db: Database, id: string): Promise<FeedChangeRow | undefined> {
  return await db.selectFrom('catalog_feed_changes').selectAll().where('id', '=', id).executeTakeFirst();
}

/** A page of the changes, newest first: ids sort by time. */
export async function findChanges(
  db: Database,
  query: {
    readonly state: FeedChangeState | undefined;
    readonly before: string | undefined;
    readonly limit: number;
  },
): Promise<FeedChangeRow[]> {
  const { state, before, limit } = query;
  return await db
    .selectFrom('catalog_feed_changes')
    .selectAll()
    .$if(state !== undefined, (all) => all.where('state', '=', state ?? 'held'))
    .$if(before !== undefined, (all) => all.where('id', '<', before ?? ''))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** Deletes the changes that no longer wait, from before a time. */
export async function pruneFeedChanges(tx: Tx, before: Date): Promise<void> {
  await tx
    .deleteFrom('catalog_feed_changes')
    .where('state', '<>', 'held')
    .where('created_at', '<', before)
    .execute();
}

/** Stores that the feed states the prices of these versions. */
export async function confirmPrices(
  tx: Tx,
  confirmed: readonly { readonly modelId: string; readonly version: number }[],
  now: Date,
): Promise<void> {
  if (confirmed.length === 0) return;
  const ids = arrayLiteral(confirmed.map(({ modelId }) => modelId));
  const versions = arrayLiteral(confirmed.map(({ version }) => String(version)));
  await sql`
    UPDATE models SET feed_confirmed_at = ${now}, feed_confirmed_version = confirmed.version
    FROM unnest(${ids}::text[], ${versions}::integer[]) AS confirmed (id, version)
    WHERE models.id = confirmed.id`.execute(tx);
}
