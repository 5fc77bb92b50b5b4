import type { ProxyRow, ShardRow, UsageRow } from './proxies.repository.ts';

/** A proxy as the API shows it. */
export interface PresentedProxy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly applied_revision: number;
  /** How many revisions it is behind. */
  readonly lag: number;
  readonly in_flight_requests: number;
  readonly waiting_usage_bytes: number;
  readonly connected_at: string;
  readonly last_seen_at: string;
  readonly may_serve_until: string;
  /** Null for one that does not say to which spool it writes. */
  readonly producer_id: string | null;
  readonly usage: PresentedUsage | null;
}

/** How much of a proxy's usage the ledger has. */
interface PresentedUsage {
  readonly state: UsageRow['state'];
  /** All that it settled before is in the ledger. */
  readonly mark_at: string;
  readonly ended_at: string | null;
  readonly superseded_by: string | null;
  readonly retired_by: string | null;
  readonly shards: ShardRow[];
  /** What an operator can do; null where nothing is to be done. */
  readonly advice: string | null;
}

/** After so long without a word a proxy is not taken for a busy one any more. */
const SILENT_MS = 10_000;

export function presentProxy(row: ProxyRow, revision: bigint, now: Date): PresentedProxy {
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    applied_revision: Number(row.applied_revision),
    // One that is known by its usage alone applies nothing any more.
    lag: row.version === '' ? 0 : Math.max(0, Number(revision - row.applied_revision)),
    in_flight_requests: row.in_flight_requests,
    waiting_usage_bytes: Number(row.waiting_usage_bytes),
    connected_at: row.connected_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
    may_serve_until: row.may_serve_until.toISOString(),
    producer_id: row.producer_id ?? null,
    usage: hasUsage(row) ? presentUsage(row, now) : null,
  };
}

function presentUsage(row: ProxyRow & UsageRow, now: Date): PresentedUsage {
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
  'Start a proxy on its spool folder, or beside it, or run `weighbridge spool replay DIR` where that folder is';

/** What to do about a proxy that has not handed over all its usage. */
function adviceOn(row: ProxyRow & UsageRow, now: Date): string | null {
  switch (row.state) {
    case 'closed':
    case 'retired':
      return null;
    case 'lost':
      return `Nobody answers for its usage any more. ${REPLAY}. If the folder is lost too, accept that with POST /api/v1/proxies/${row.id}/retire.`;
    case 'open':
      if (row.superseded_by !== null)
        return `${row.superseded_by} took its spool over and hands over what it left behind; nothing is to be done while that one runs.`;
      if (now.getTime() - row.last_seen_at.getTime() <= SILENT_MS) return null;
      return `It is silent, and its usage is awaited. ${REPLAY}. After 25 minutes of silence it counts as lost.`;
  }
}
