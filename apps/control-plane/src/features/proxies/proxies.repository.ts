import type { Database, Proxies } from '@weighbridge/database';
import { type Selectable, sql } from 'kysely';

export type ProxyRow = Selectable<Proxies>;

/** What a control plane knows of a proxy that watches it. */
export interface SeenProxy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly appliedRevision: bigint;
  readonly inFlightRequests: number;
  readonly waitingUsageBytes: bigint;
  readonly connectedAt: Date;
  /** It may go on for this long after what it hears now. */
  readonly maxStalenessMs: number;
}

/**
 * Puts on record that these proxies were seen now, and until when each may go on serving: before it is told so. A
 * proxy's right is never shortened by a later record, since it may have heard the earlier one.
 */
export async function recordSeen(db: Database, proxies: readonly SeenProxy[]): Promise<void> {
  if (proxies.length === 0) return;
  const rows = proxies.map((proxy) => ({
    id: proxy.id,
    name: proxy.name,
    version: proxy.version,
    applied_revision: String(proxy.appliedRevision),
    in_flight_requests: proxy.inFlightRequests,
    waiting_usage_bytes: String(proxy.waitingUsageBytes),
    connected_at: proxy.connectedAt.toISOString(),
    max_staleness_ms: proxy.maxStalenessMs,
  }));
  await sql`
    INSERT INTO proxies (id, name, version, applied_revision, in_flight_requests, waiting_usage_bytes, connected_at,
                         last_seen_at, may_serve_until)
    SELECT id, name, version, applied_revision, in_flight_requests, waiting_usage_bytes, connected_at,
           clock_timestamp(), clock_timestamp() + max_staleness_ms * interval '1 millisecond'
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS seen (
      id text, name text, version text, applied_revision bigint, in_flight_requests integer,
      waiting_usage_bytes bigint, connected_at timestamptz, max_staleness_ms bigint)
    ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
      applied_revision = greatest(proxies.applied_revision, excluded.applied_revision),
      in_flight_requests = excluded.in_flight_requests,
      waiting_usage_bytes = excluded.waiting_usage_bytes,
      connected_at = excluded.connected_at,
      last_seen_at = excluded.last_seen_at,
      may_serve_until = greatest(proxies.may_serve_until, excluded.may_serve_until)`.execute(db);
}

/** A proxy that said good-bye serves no more. */
export async function recordGone(db: Database, id: string): Promise<void> {
  await db
    .updateTable('proxies')
    .set({ may_serve_until: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** How many proxies were seen a moment ago. */
export async function countLive(db: Database): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM proxies
    WHERE may_serve_until > clock_timestamp() AND last_seen_at > clock_timestamp() - interval '5 seconds'`.execute(
    db,
  );
  return rows[0]?.count ?? 0;
}

/** Proxies by id, after a given one; with `all`, also those that may serve no more. */
export async function findProxies(
  db: Database,
  {
    after,
    limit,
    all,
  }: { readonly after: string | undefined; readonly limit: number; readonly all: boolean },
): Promise<ProxyRow[]> {
  let query = db.selectFrom('proxies').selectAll();
  if (!all) query = query.where(sql<boolean>`may_serve_until > clock_timestamp()`);
  if (after !== undefined) query = query.where('id', '>', after);
  return await query.orderBy('id').limit(limit).execute();
}

/** The proxies that may still serve what was before a revision. */
export async function findBehind(db: Database, revision: bigint): Promise<string[]> {
  const rows = await db
    .selectFrom('proxies')
    .select('id')
    .where('applied_revision', '<', revision)
    .where(sql<boolean>`may_serve_until > clock_timestamp()`)
    .orderBy('id')
    .execute();
  return rows.map((row) => row.id);
}
