import { arrayLiteral, type UsageEvents } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, type Selectable, type SqlBool, sql } from 'kysely';
import { type LedgerFilter, matches } from '../spend/ledgerFilter.ts';

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

/** A row of the ledger. */
export type AttemptRow = Selectable<UsageEvents>;

export interface SearchPage {
  readonly after: RequestPosition | undefined;
  readonly limit: number;
}

export interface Searched {
  readonly attempts: readonly FoundAttempt[];
  /** All attempts before this one in the list were looked at, later ones were not; undefined: nothing is left, or the page is full. */
  readonly searchedTo: RequestPosition | undefined;
}

export interface FoundAttempt {
  readonly request_id: string;
  readonly admitted_at: Date;
  readonly event_id: string;
}

/** Whether the filter has an index that leads to its few attempts. */
export function isIndexed({ requestId, sessionSha256, priceIncomplete }: RequestFilter): boolean {
  return requestId !== undefined || sessionSha256 !== undefined || priceIncomplete === true;
}

/**
 * Walks attempts from the newest, and takes a request at its first attempt. A request keeps this position, however many
 * attempts follow while a client reads the pages. `walk`: looks at no more attempts than these.
 */
export function requestsSql(
  filter: RequestFilter,
  page: {
    readonly after: RequestPosition | undefined;
    readonly limit: number;
    readonly walk?: number | undefined;
  },
): RawBuilder<FoundAttempt> {
  const { after, limit, walk } = page;
  const attempts = walk === undefined ? indexedSql(filter) : sql`(${walkSql(filter, after)} LIMIT ${walk})`;
  return sql<FoundAttempt>`
    SELECT event.request_id, event.admitted_at, event.event_id
    FROM ${attempts} AS event
    WHERE ${sql.join([startAfter('event', filter, after), ...conditions('event', filter)], sql` AND `)}
      AND ${isFirstOfRequest(filter)}
    ORDER BY event.admitted_at DESC, event.event_id DESC
    LIMIT ${limit}`;
}

/** The attempts of the filter's index, by that index: Postgres would guess that those of a principal are fewer. */
function indexedSql({ requestId, sessionSha256 }: RequestFilter): RawBuilder<unknown> {
  const one =
    requestId === undefined
      ? sql`event.attribution ->> 'session_sha256' = ${sessionSha256}`
      : sql`event.request_id = ${requestId}`;
  if (requestId === undefined && sessionSha256 === undefined) return sql`usage_events`;
  return sql`(SELECT * FROM usage_events AS event WHERE ${one} OFFSET 0)`;
}

/** The attempts that a walk looks at, the newest first, narrowed by what has an index in this order. */
function walkSql(filter: RequestFilter, after: RequestPosition | undefined): RawBuilder<RequestPosition> {
  const { from, keyId, principalId, within, outcome, estimated } = filter;
  const ownPrincipal = within?.teamIds.length === 0 ? within.principalId : undefined;
  const wanted = [startAfter('event', filter, after), ...matches('event', { from, to: undefined })];
  const equals = (column: string, value: string) =>
    wanted.push(sql<SqlBool>`${sql.ref(`event.${column}`)} = ${value}`);
  const principal = principalId ?? ownPrincipal;
  if (keyId !== undefined) equals('key_id', keyId);
  else if (principal !== undefined) equals('principal_id', principal);
  // In the words of the partial indexes.
  if (outcome !== undefined && outcome !== 'success') {
    equals('outcome', outcome);
    wanted.push(sql<SqlBool>`event.outcome <> 'success'`);
  }
  if (estimated === true) wanted.push(sql<SqlBool>`event.estimated`);
  return sql<RequestPosition>`
    SELECT * FROM usage_events AS event
    WHERE ${sql.join(wanted, sql` AND `)}
    ORDER BY event.admitted_at DESC, event.event_id DESC`;
}

/** The place in the walk after a number of attempts; no row if it ends before. */
export function walkEndSql(
  filter: RequestFilter,
  after: RequestPosition | undefined,
  walk: number,
): RawBuilder<Omit<FoundAttempt, 'request_id'>> {
  return sql`
    SELECT walked.admitted_at, walked.event_id
    FROM (${walkSql(filter, after)} OFFSET ${walk - 1} LIMIT 1) AS walked`;
}

/** A key in an hour of which there are sums. */
export interface KeyHour {
  readonly hour: Date;
  readonly keyId: string;
}

/** The same requests, of the attempts of these keys in these hours alone. */
export function requestsOfKeysSql(
  filter: RequestFilter,
  keyHours: readonly KeyHour[],
  { after, limit }: { readonly after: RequestPosition; readonly limit: number },
): RawBuilder<FoundAttempt> {
  const hours = arrayLiteral(keyHours.map(({ hour }) => hour));
  const keys = arrayLiteral(keyHours.map(({ keyId }) => keyId));
  return sql<FoundAttempt>`
    SELECT found.request_id, found.admitted_at, found.event_id
    FROM unnest(${hours}::timestamptz[], ${keys}::text[]) AS summed (hour, key_id)
    CROSS JOIN LATERAL (
      SELECT event.request_id, event.admitted_at, event.event_id
      FROM usage_events AS event
      WHERE event.key_id = summed.key_id
        AND event.admitted_at >= summed.hour AND event.admitted_at < summed.hour + interval '1 hour'
        AND ${sql.join([startAfter('event', filter, after), ...conditions('event', filter)], sql` AND `)}
        AND ${isFirstOfRequest(filter)}
      ORDER BY event.admitted_at DESC, event.event_id DESC
      LIMIT ${limit}
    ) AS found
    ORDER BY found.admitted_at DESC, found.event_id DESC
    LIMIT ${limit}`;
}

function startAfter(
  alias: string,
  { to }: RequestFilter,
  after: RequestPosition | undefined,
): RawBuilder<SqlBool> {
  const [at, id] = [sql.ref(`${alias}.admitted_at`), sql.ref(`${alias}.event_id`)];
  // Only one upper bound: with both, the index scan would start at `to` and walk to the page.
  if (!after || after.admittedAt >= to) return sql<SqlBool>`${at} < ${to}`;
  return sql<SqlBool>`(${at}, ${id}) < (${after.admittedAt}, ${after.eventId}::uuid)`;
}

function isFirstOfRequest(filter: RequestFilter): RawBuilder<SqlBool> {
  return sql<SqlBool>`NOT EXISTS (
    SELECT FROM usage_events AS earlier
    WHERE earlier.request_id = event.request_id
      AND (earlier.admitted_at, earlier.event_id) < (event.admitted_at, event.event_id)
      AND ${sql.join(conditions('earlier', filter), sql` AND `)}
    -- Keeps this a look-up per row: as a join, it would read the whole range.
    OFFSET 0
  )`;
}

/** The filter without its upper bound of time. */
function conditions(alias: string, filter: RequestFilter): RawBuilder<SqlBool>[] {
  const column = (name: string) => sql.ref(`${alias}.${name}`);
  const all = [...matches(alias, { ...filter, to: undefined }), sql<SqlBool>`${column('kind')} = 'attempt'`];
  if (filter.requestId !== undefined) all.push(sql`${column('request_id')} = ${filter.requestId}`);
  if (filter.sessionSha256 !== undefined) {
    all.push(sql`${column('attribution')} ->> 'session_sha256' = ${filter.sessionSha256}`);
  }
  if (filter.outcome !== undefined) all.push(sql`${column('outcome')} = ${filter.outcome}`);
  if (filter.minCost !== undefined) all.push(sql`${column('cost_nano_usd')} >= ${filter.minCost}`);
  if (filter.estimated !== undefined) all.push(sql`${column('estimated')} = ${filter.estimated}`);
  if (filter.priceIncomplete !== undefined) {
    // Not negated where it is wanted: the partial index has these words.
    const isIncomplete = sql<SqlBool>`${column('details')} ? 'unpriced'`;
    all.push(filter.priceIncomplete ? isIncomplete : sql<SqlBool>`coalesce(NOT ${isIncomplete}, true)`);
  }
  return all;
}
