import type { Database, RefusedRequests } from '@weighbridge/database';
import { type Selectable, type SqlBool, sql } from 'kysely';
import type { RequestFilter, RequestPosition } from '../requests/attemptsSql.ts';
import { isUnder, isWithin } from '../spend/ledgerFilter.ts';
import type { RefusingCounter } from './refusal.ts';

export interface RefusedRequestRow extends Omit<Selectable<RefusedRequests>, 'counter' | 'counts'> {
  readonly counter: RefusingCounter | null;
  readonly counts: Readonly<Record<string, number>> | null;
}

export interface RefusalFilter extends RequestFilter {
  /** Without those that sent attempts before: those are requests of the ledger. */
  readonly unsentOnly: boolean;
}

/** At most `limit` refused requests after a position, the newest first. */
export async function findRefusals(
  db: Database,
  filter: RefusalFilter,
  { after, limit }: { readonly after: RequestPosition | undefined; readonly limit: number },
): Promise<RefusedRequestRow[]> {
  if (onlyOfAttempts(filter)) return [];
  const start =
    after && after.admittedAt < filter.to
      ? sql<SqlBool>`(refused_at, id) < (${after.admittedAt}, ${after.eventId}::uuid)`
      : sql<SqlBool>`refused_at < ${filter.to}`;
  const { rows } = await sql<RefusedRequestRow>`
    SELECT * FROM refused_requests
    WHERE ${sql.join([start, ...conditions(filter)], sql` AND `)}
    ORDER BY refused_at DESC, id DESC
    LIMIT ${limit}`.execute(db);
  return rows;
}

/** Those of some requests, by request id. A request is refused at most once. */
export async function readRefusals(
  db: Database,
  requestIds: readonly string[],
): Promise<Map<string, RefusedRequestRow>> {
  const { rows } = await sql<RefusedRequestRow>`
    SELECT * FROM refused_requests
    WHERE request_id <> '' AND request_id = ANY (${[...requestIds]}::text[])`.execute(db);
  return new Map(rows.map((row) => [row.request_id, row]));
}

/** A refused request has no provider, no cost and no usage. */
function onlyOfAttempts(filter: RefusalFilter): boolean {
  const { outcome, provider, minCost, estimated, priceIncomplete } = filter;
  const isOther = outcome !== undefined && outcome !== 'refused';
  const costs = minCost !== undefined && minCost > 0n;
  return isOther || costs || provider !== undefined || estimated === true || priceIncomplete === true;
}

function conditions(filter: RefusalFilter) {
  const equal = (value: string | undefined, name: string) =>
    value === undefined ? [] : [sql<SqlBool>`${sql.ref(name)} = ${value}`];
  const attributed = (value: string | undefined, name: string) =>
    value === undefined ? [] : [sql<SqlBool>`attribution ->> ${name}::text = ${value}`];
  return [
    sql<SqlBool>`refused_at >= ${filter.from}`,
    ...equal(filter.principalId, 'principal_id'),
    ...equal(filter.teamId, 'team_id'),
    ...(filter.within ? [isWithin(filter.within, (name) => sql.ref(name))] : []),
    ...equal(filter.keyId, 'key_id'),
    ...equal(filter.requestId, 'request_id'),
    ...equal(filter.model, 'model_requested'),
    // Governed by it, or refused by it as a parent.
    ...(filter.policyId === undefined
      ? []
      : [
          sql<SqlBool>`(${isUnder(sql.ref('policy_id'), filter.policyId)} OR split_part(counter ->> 'policy_id', '.', 1) = ${filter.policyId})`,
        ]),
    ...attributed(filter.user, 'user'),
    ...attributed(filter.team, 'team'),
    ...attributed(filter.project, 'project'),
    ...attributed(filter.env, 'env'),
    ...attributed(filter.sessionSha256, 'session_sha256'),
    ...(filter.labels ?? []).map(
      ([key, value]) => sql<SqlBool>`attribution -> 'labels' ->> ${key}::text = ${value}`,
    ),
    ...(filter.unsentOnly ? [sql<SqlBool>`attempts = 0`] : []),
  ];
}
