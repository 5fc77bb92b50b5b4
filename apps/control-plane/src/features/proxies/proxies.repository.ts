import { arrayLiteral, type Database, type Proxies } from '@weighbridge/database';
import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { ProxyShard, ProxyUsage } from './proxies.schemas.ts';

/** How much of a proxy's usage the ledger has. */
export interface UsageRow {
  readonly producer_id: string;
  readonly state: ProxyUsage['state'];
  readonly mark_at: Date;
  readonly superseded_by: string | null;
  readonly ended_at: Date | null;
  readonly retired_by: string | null;
  readonly shards: ProxyShard[];
}

/** A proxy, joined from the row of its control stream and the row of its usage. One of the two may be missing. */
export type ProxyRow = Selectable<Proxies> & Partial<UsageRow>;

/** What a control plane knows of a connected proxy. */
export interface SeenProxy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** It gets tables as rows. False, of release 0.1.0: in one message. */
  readonly takesRows: boolean;
  readonly appliedRevision: bigint;
  readonly inFlightRequests: number;
  readonly waitingUsageBytes: bigint;
  /** 0: not reported. */
  readonly usageLimitBytes: bigint;
  /** Those that it sends nothing to, or little. */
  readonly connectors: readonly ReportedConnector[];
  readonly connectedAt: Date;
  /** How long after a heartbeat it may go on serving. */
  readonly maxStalenessMs: number;
}

/** A connector that gets no requests of a proxy, or only a few to try it. */
export interface ReportedConnector {
  readonly connector_id: string;
  readonly state: 'half_open' | 'open' | 'dead';
  readonly down_for_ms: number;
}

/**
 * Records these proxies as seen now, and until when each may serve. `may_serve_until` never goes back: the proxy may
 * already rely on the earlier value.
 */
export async function recordSeen(db: Database, proxies: readonly SeenProxy[]): Promise<void> {
  if (proxies.length === 0) return;
  const rows = proxies.map((proxy) => ({
    id: proxy.id,
    name: proxy.name,
    version: proxy.version,
    takes_rows: proxy.takesRows,
    applied_revision: String(proxy.appliedRevision),
    in_flight_requests: proxy.inFlightRequests,
    waiting_usage_bytes: String(proxy.waitingUsageBytes),
    usage_limit_bytes: String(proxy.usageLimitBytes),
    connectors: proxy.connectors,
    connected_at: proxy.connectedAt.toISOString(),
    max_staleness_ms: proxy.maxStalenessMs,
  }));
  await sql`
    INSERT INTO proxies (id, name, version, takes_rows, applied_revision, in_flight_requests, waiting_usage_bytes, usage_limit_bytes,
                         connectors, connected_at, last_seen_at, may_serve_until)
    SELECT id, name, version, takes_rows, applied_revision, in_flight_requests, waiting_usage_bytes, usage_limit_bytes,
           connectors, connected_at, clock_timestamp(), clock_timestamp() + max_staleness_ms * interval '1 millisecond'
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS seen (
      id text, name text, version text, takes_rows boolean, applied_revision bigint, in_flight_requests integer,
      waiting_usage_bytes bigint, usage_limit_bytes bigint, connectors jsonb, connected_at timestamptz,
      max_staleness_ms bigint)
    ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
      takes_rows = excluded.takes_rows,
      applied_revision = greatest(proxies.applied_revision, excluded.applied_revision),
      in_flight_requests = excluded.in_flight_requests,
      waiting_usage_bytes = excluded.waiting_usage_bytes,
      usage_limit_bytes = excluded.usage_limit_bytes,
      connectors = excluded.connectors,
      connected_at = excluded.connected_at,
      last_seen_at = excluded.last_seen_at,
      may_serve_until = greatest(proxies.may_serve_until, excluded.may_serve_until)`.execute(db);
}

/** Records that a proxy said goodbye: it serves no longer. */
export async function recordGoodbye(db: Database, id: string): Promise<void> {
  await db
    .updateTable('proxies')
    .set({ may_serve_until: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** A process that closed its own epoch ends its stream sooner than this. */
const CLOSED_GRACE_SECONDS = 10;

/**
 * An SQL condition on `producers`: the epoch is superseded. Another process writes to its spool, or a copy of it was replayed
 * and closed the epoch while its process still runs.
 */
const IS_SUPERSEDED = sql<boolean>`(
  producers.superseded_by IS NOT NULL
  OR producers.state = 'closed'
    AND producers.ended_at < statement_timestamp() - make_interval(secs => ${CLOSED_GRACE_SECONDS}))`;

/** An SQL condition on `proxies`: it may serve now. A superseded run serves no longer, although its right to serve may not have ended yet. */
const IS_SERVING = sql<boolean>`(
  may_serve_until > clock_timestamp()
  AND NOT coalesce((
    -- Of the producer that had the epoch first, whatever another one sent under it.
    SELECT ${IS_SUPERSEDED} FROM producers WHERE producers.epoch::text = proxies.id
    ORDER BY first_seen_at, producer_id LIMIT 1
  ), false))`;

/** How many proxies may serve and were seen in the last five seconds. */
export async function countLiveProxies(db: Database): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM proxies
    WHERE may_serve_until > clock_timestamp() AND last_seen_at > clock_timestamp() - interval '5 seconds'`.execute(
    db,
  );
  return rows[0]?.count ?? 0;
}

/** The proxies that `countLiveProxies` counts, the longest connected first; at most 100. */
export async function findLiveProxies(db: Database): Promise<{ id: string; name: string }[]> {
  const { rows } = await sql<{ id: string; name: string }>`
    SELECT id, name FROM proxies
    WHERE may_serve_until > clock_timestamp() AND last_seen_at > clock_timestamp() - interval '5 seconds'
    ORDER BY connected_at, id
    LIMIT 100`.execute(db);
  return rows;
}

/** What the proxies that may serve now report of these connectors, the worst first. */
export async function findReportedConnectors(
  db: Database,
  connectorIds: readonly string[],
): Promise<(ReportedConnector & { readonly proxy_id: string; readonly proxy_name: string })[]> {
  const { rows } = await sql<ReportedConnector & { proxy_id: string; proxy_name: string }>`
    SELECT reported.connector_id, reported.state, reported.down_for_ms::float8 AS down_for_ms,
      proxies.id AS proxy_id, proxies.name AS proxy_name
    FROM proxies
    CROSS JOIN LATERAL jsonb_to_recordset(proxies.connectors)
      AS reported (connector_id text, state text, down_for_ms bigint)
    WHERE ${IS_SERVING} AND reported.connector_id = ANY (${arrayLiteral(connectorIds)}::text[])
    ORDER BY array_position(ARRAY['dead', 'open', 'half_open'], reported.state), reported.down_for_ms DESC, proxies.id`.execute(
    db,
  );
  return rows;
}

/** What all proxies together report of themselves. */
export interface ProxySums {
  /** Those that may serve now. */
  readonly serving: number;
  /** Of them, those that were silent for the last ten seconds. */
  readonly silent: number;
  /** Usage in their spools that the ledger lacks. */
  readonly waitingBytes: number;
  /** The names of those whose spools are more than 80 % full; at most 10. */
  readonly filling: readonly string[];
}

export async function sumProxies(db: Database): Promise<ProxySums> {
  const isFilling = sql`usage_limit_bytes > 0 AND waiting_usage_bytes > usage_limit_bytes * 0.8`;
  const { rows } = await sql<ProxySums>`
    SELECT count(*)::integer AS serving,
      count(*) FILTER (WHERE last_seen_at < clock_timestamp() - interval '10 seconds')::integer AS silent,
      coalesce(sum(waiting_usage_bytes), 0)::float8 AS "waitingBytes",
      coalesce((array_agg(name ORDER BY id) FILTER (WHERE ${isFilling}))[1:10], '{}') AS filling
    FROM proxies WHERE ${IS_SERVING}`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('an aggregate returned no row');
  return row;
}

/**
 * Proxies by id, after a given one: those that may serve now, and those whose usage may not all be in the ledger. With
 * `all`, every recorded proxy.
 */
export async function findProxies(
  db: Database,
  {
    after,
    limit,
    all,
  }: { readonly after: string | undefined; readonly limit: number; readonly all: boolean },
): Promise<ProxyRow[]> {
  const ids = sql`
    SELECT id
    FROM (
      SELECT id FROM proxies WHERE ${all} OR may_serve_until > clock_timestamp()
      UNION
      SELECT epoch::text FROM producers WHERE ${all} OR state IN ('open', 'lost')
    ) AS known
    WHERE ${after === undefined ? sql`true` : sql`id > ${after}`}
    ORDER BY id
    LIMIT ${limit}`;
  return await proxiesOf(db, ids);
}

/** One proxy, connected or not. */
export async function findProxy(db: Database, id: string): Promise<ProxyRow | undefined> {
  const ids = sql`
    SELECT id FROM proxies WHERE id = ${id}
    UNION
    SELECT epoch::text FROM producers WHERE epoch::text = ${id}`;
  return (await proxiesOf(db, ids))[0];
}

const MAX_MISSING_RANGES = 20;

/** A proxy of which only usage is left takes its times from there: it serves no longer. */
async function proxiesOf(db: Database, ids: RawBuilder<unknown>): Promise<ProxyRow[]> {
  const { rows } = await sql<ProxyRow>`
    WITH wanted AS (${ids})
    SELECT
      wanted.id,
      coalesce(nullif(proxies.name, ''), producers.name, '') AS name,
      coalesce(proxies.version, '') AS version,
      coalesce(proxies.applied_revision, 0) AS applied_revision,
      coalesce(proxies.in_flight_requests, 0) AS in_flight_requests,
      coalesce(proxies.waiting_usage_bytes, 0) AS waiting_usage_bytes,
      coalesce(proxies.usage_limit_bytes, 0) AS usage_limit_bytes,
      coalesce(proxies.connectors, '[]') AS connectors,
      coalesce(proxies.connected_at, producers.first_seen_at) AS connected_at,
      greatest(proxies.last_seen_at, producers.last_seen_at) AS last_seen_at,
      coalesce(proxies.may_serve_until, producers.last_seen_at) AS may_serve_until,
      producers.producer_id, producers.state, producers.mark_at, producers.superseded_by, producers.ended_at,
      producers.retired_by,
      (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'shard', shard, 'recorded_n', recorded_n, 'last_n', last_n, 'gap_since', gap_since,
          'missing', (SELECT coalesce(sum(upper(gap) - lower(gap)), 0) FROM unnest(gaps.ranges) AS gap),
          'missing_ranges', ARRAY(
            SELECT lower(gap) || '-' || upper(gap) - 1 FROM unnest(gaps.ranges) AS gap
            ORDER BY gap LIMIT ${MAX_MISSING_RANGES}
          )) ORDER BY shard), '[]')
        FROM producer_shards
        CROSS JOIN LATERAL (
          -- Up to the last event that the proxy reported, or that the ledger has.
          SELECT int8multirange(int8range(1, greatest(coalesce(last_n, 0) + 1, coalesce(upper(received), 1)))) - received
            AS ranges
        ) AS gaps
        WHERE producer_shards.producer_id = producers.producer_id AND producer_shards.epoch = producers.epoch
      ) AS shards
    FROM wanted
    LEFT JOIN proxies ON proxies.id = wanted.id
    LEFT JOIN producers ON producers.epoch::text = wanted.id
    ORDER BY wanted.id`.execute(db);
  return rows;
}

/** Those of these epochs that are superseded. What another producer did under the same epoch doesn't count. */
export async function findSupersededEpochs(
  db: Database,
  epochs: readonly { readonly producerId: string; readonly epoch: string }[],
): Promise<string[]> {
  const { rows } = await sql<{ epoch: string }>`
    SELECT epoch FROM producers
    JOIN unnest(
      ${arrayLiteral(epochs.map(({ producerId }) => producerId))}::uuid[],
      ${arrayLiteral(epochs.map(({ epoch }) => epoch))}::uuid[]
    ) AS named (producer_id, epoch) USING (producer_id, epoch)
    WHERE ${IS_SUPERSEDED}`.execute(db);
  return rows.map((row) => row.epoch);
}

/** Deletes proxies that were last seen more than a day ago. */
export async function pruneProxies(db: Database): Promise<void> {
  await sql`DELETE FROM proxies WHERE greatest(may_serve_until, last_seen_at) < clock_timestamp() - interval '1 day'`.execute(
    db,
  );
}

/** A proxy that may serve requests now, and what it has applied. */
export interface ServingProxy {
  readonly id: string;
  readonly appliedRevision: bigint;
}

export async function findServingProxies(db: Database): Promise<ServingProxy[]> {
  const { rows } = await sql<{ id: string; applied_revision: bigint }>`
    SELECT id, applied_revision FROM proxies WHERE ${IS_SERVING} ORDER BY id`.execute(db);
  return rows.map((row) => ({ id: row.id, appliedRevision: row.applied_revision }));
}
