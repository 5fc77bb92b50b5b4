import type { ProxyRow, UsageRow } from './proxies.repository.ts';
import type { ProxyResource, ProxyUsage } from './proxies.schemas.ts';

/** A proxy that is silent for longer is not merely busy. */
const SILENT_MS = 10_000;

export function presentProxy(row: ProxyRow, revision: bigint, now: Date): ProxyResource {
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    applied_revision: Number(row.applied_revision),
    // A proxy of which only usage is left applies nothing any more.
    lag: row.version === '' ? 0 : Math.max(0, Number(revision - row.applied_revision)),
    in_flight_requests: row.in_flight_requests,
    waiting_usage_bytes: Number(row.waiting_usage_bytes),
    usage_limit_bytes: row.usage_limit_bytes === 0n ? null : Number(row.usage_limit_bytes),
    connected_at: row.connected_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
    may_serve_until: row.may_serve_until.toISOString(),
    producer_id: row.producer_id ?? null,
    usage: hasUsage(row) ? presentUsage(row, now) : null,
  };
}

function presentUsage(row: ProxyRow & UsageRow, now: Date): ProxyUsage {
  return {
    state: row.state,
    mark_at: row.mark_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    superseded_by: row.superseded_by,
    retired_by: row.retired_by,
    shards: row.shards.map((shard) => ({
      ...shard,
      gap_since: shard.gap_since === null ? null : new Date(shard.gap_since).toISOString(),
    })),
    advice: adviceOn(row, now),
  };
}

export function hasUsage(row: ProxyRow): row is ProxyRow & UsageRow {
  return row.state != null;
}

const REPLAY =
  'Start a proxy on its spool folder or on a folder beside it, or run `weighbridge spool replay DIR` where the folder is';

function adviceOn(row: ProxyRow & UsageRow, now: Date): string | null {
  switch (row.state) {
    case 'closed':
    case 'retired':
      return null;
    case 'lost':
      return `The proxy is lost, and its usage may be missing. ${REPLAY}. If the folder is lost too, accept the loss with POST /api/v1/proxies/${row.id}/retire.`;
    case 'open':
      if (row.superseded_by !== null)
        return `Proxy ${row.superseded_by} took over its spool and delivers the rest of its usage. There is nothing to do while that proxy runs.`;
      if (now.getTime() - row.last_seen_at.getTime() <= SILENT_MS) return null;
      return `The proxy is silent, and some of its usage may not have arrived. ${REPLAY}. After 25 minutes of silence it counts as lost.`;
  }
}
