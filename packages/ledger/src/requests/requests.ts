import type { Database, UsageEvents } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, type Selectable, sql } from 'kysely';
import { type LedgerFilter, matches } from '../spend/ledgerFilter.ts';

export type AttemptRow = Selectable<UsageEvents>;

/** A request matches if one of its attempts meets all of these conditions. */
export interface RequestFilter extends LedgerFilter {
  readonly requestId?: string | undefined;
  /** The SHA-256 of the whole session id, in hex. */
  readonly sessionSha256?: string | undefined;
  readonly outcome?: string | undefined;
  readonly minCost?: NanoUsd | undefined;
  readonly estimated?: boolean | undefined;
  /** Whether the price list lacked a price for something that it used. */
  readonly priceIncomplete?: boolean | undefined;
}

/** A request's position in the list: its first attempt that matches the filter. */
export interface RequestPosition {
  readonly admittedAt: Date;
  readonly eventId: string;
}

/** A request with all its rows in the ledger. Its cost is the sum over both lists. */
export interface LedgerRequest {
  readonly requestId: string;
  /** In the order of their admission. */
  readonly attempts: readonly [AttemptRow, ...AttemptRow[]];
  /** In the order in which they were made. */
  readonly corrections: readonly AttemptRow[];
}

export interface ListedRequest extends LedgerRequest {
  readonly position: RequestPosition;
}

interface Found {
  readonly request_id: string;
  readonly admitted_at: Date;
  readonly event_id: string;
}

/** At most `limit` requests after a position, the newest first. */
export async function findRequests(
  db: Database,
  filter: RequestFilter,
  page: { readonly after: RequestPosition | undefined; readonly limit: number },
): Promise<ListedRequest[]> {
  const { rows } = await requestsSql(filter, page).execute(db);
  if (rows.length === 0) return [];
  const requests = await readRequests(
    db,
    rows.map((row) => row.request_id),
  );
  return rows.flatMap((row) => {
    const request = requests.get(row.request_id);
    return request ? [{ ...request, position: { admittedAt: row.admitted_at, eventId: row.event_id } }] : [];
  });
}

/** A request with all its rows; undefined if the ledger has no attempt of it. */
export async function findRequest(db: Database, requestId: string): Promise<LedgerRequest | undefined> {
  return (await readRequests(db, [requestId])).get(requestId);
}

/**
 * Walks attempts from the newest, and takes a request at its first attempt. A request keeps this position, however many
 * attempts follow while a client reads the pages.
 */
export function requestsSql(
  filter: RequestFilter,
  { after, limit }: { readonly after: RequestPosition | undefined; readonly limit: number },
): RawBuilder<Found> {
  // Only one upper bound: with both, the index scan would start at `to` and walk to the page.
  const isFirst = !after || after.admittedAt >= filter.to;
  const start = isFirst
    ? conditions('event', filter)
    : sql`${conditions('event', { ...filter, to: undefined })}
        AND (event.admitted_at, event.event_id) < (${after.admittedAt}, ${after.eventId}::uuid)`;
  return sql<Found>`
    SELECT event.request_id, event.admitted_at, event.event_id
    FROM usage_events AS event
    WHERE ${start}
      AND NOT EXISTS (
        SELECT FROM usage_events AS earlier
        WHERE earlier.request_id = event.request_id
          AND (earlier.admitted_at, earlier.event_id) < (event.admitted_at, event.event_id)
          AND ${conditions('earlier', filter)}
        -- Keeps this a look-up per row: as a join, it would read the whole range.
        OFFSET 0
      )
    ORDER BY event.admitted_at DESC, event.event_id DESC
    LIMIT ${limit}`;
}

function conditions(
  alias: string,
  filter: Omit<RequestFilter, 'to'> & { readonly to: Date | undefined },
): RawBuilder<unknown> {
  const column = (name: string) => sql.ref(`${alias}.${name}`);
  const all = [...matches(alias, filter), sql`${column('kind')} = 'attempt'`];
  if (filter.requestId !== undefined) all.push(sql`${column('request_id')} = ${filter.requestId}`);
  if (filter.sessionSha256 !== undefined) {
    all.push(sql`${column('attribution')} ->> 'session_sha256' = ${filter.sessionSha256}`);
  }
  if (filter.outcome !== undefined) all.push(sql`${column('outcome')} = ${filter.outcome}`);
  if (filter.minCost !== undefined) all.push(sql`${column('cost_nano_usd')} >= ${filter.minCost}`);
  if (filter.estimated !== undefined) all.push(sql`${column('estimated')} = ${filter.estimated}`);
  if (filter.priceIncomplete !== undefined) {
    // Not negated where it is wanted: the partial index has these words.
    const isIncomplete = sql`${column('details')} ? 'unpriced'`;
    all.push(filter.priceIncomplete ? isIncomplete : sql`coalesce(NOT ${isIncomplete}, true)`);
  }
  return sql.join(all, sql` AND `);
}

/** Requests with all their rows, by id. */
export async function readRequests(
  db: Database,
  requestIds: readonly string[],
): Promise<Map<string, LedgerRequest>> {
  if (requestIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('usage_events')
    .selectAll()
    .where('request_id', 'in', [...requestIds])
    .orderBy('admitted_at')
    .orderBy('event_id')
    .execute();
  const ofRequest = new Map<string, { attempts: AttemptRow[]; corrections: AttemptRow[] }>();
  for (const row of rows) {
    const request = ofRequest.get(row.request_id) ?? { attempts: [], corrections: [] };
    (row.kind === 'correction' ? request.corrections : request.attempts).push(row);
    ofRequest.set(row.request_id, request);
  }
  return new Map(
    [...ofRequest].flatMap(
      ([
        requestId,
        {
          attempts: [first, ...others],
          corrections,
        },
      ]) => {
        // The month of its attempts may have been dropped.
        if (!first) return [];
        corrections.sort((a, b) => (a.event_id < b.event_id ? -1 : 1));
        return [[requestId, { requestId, attempts: [first, ...others] as const, corrections }]];
      },
    ),
  );
}
