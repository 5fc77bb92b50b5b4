import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import {
  type AttemptRow,
  findRefusals,
  findRequest,
  findRequests,
  type LedgerRequest,
  type RefusedRequestRow,
  type RequestFilter,
  type RequestPosition,
  readRefusals,
  readRequests,
} from '@weighbridge/ledger';
import { readResourceNames } from '../../shared/resourceNames.ts';

/** Where the ledger's rows are. */
export interface LedgerDeps {
  readonly db: Database;
  /** Undefined: all are in Postgres. */
  readonly archive?: Archive | undefined;
}

/** A request with its rows: it has attempts, or was refused, or both. */
export interface FoundRequest extends Omit<LedgerRequest, 'attempts'> {
  readonly attempts: readonly AttemptRow[];
  readonly refusal: RefusedRequestRow | undefined;
}

interface PlacedRequest extends FoundRequest {
  readonly position: RequestPosition;
}

interface RequestPage {
  readonly after: RequestPosition | undefined;
  readonly limit: number;
}

export interface FoundPage {
  readonly requests: readonly PlacedRequest[];
  /** How far a search came that found fewer than were wanted; undefined if nothing is left. */
  readonly searchedTo: RequestPosition | undefined;
}

/** At most `limit` requests after a position, the newest first: those of the ledger and the refused ones in one order. */
export async function findAllRequests(
  { db, archive }: LedgerDeps,
  filter: RequestFilter,
  page: RequestPage,
): Promise<FoundPage> {
  if (filter.outcome === 'refused') {
    return { requests: await findRefused({ db, archive }, filter, page), searchedTo: undefined };
  }
  const { requests: sent, searchedTo } = await findRequests(db, filter, page, archive);
  const refused = await findRefusals(db, { ...filter, unsentOnly: true }, page);
  const refusals = await readRefusals(
    db,
    sent.map(({ requestId }) => requestId),
  );
  const all = [
    ...sent.map((request) => ({ ...request, refusal: refusals.get(request.requestId) })),
    ...refused.map((refusal) => placed(refusal, undefined)),
  ].sort(newestFirst);
  const end = searchedTo && { position: searchedTo };
  return {
    requests: all.filter((request) => !end || newestFirst(request, end) < 0).slice(0, page.limit),
    searchedTo,
  };
}

async function findRefused(
  { db, archive }: LedgerDeps,
  filter: RequestFilter,
  page: RequestPage,
): Promise<PlacedRequest[]> {
  const refused = await findRefusals(db, { ...filter, unsentOnly: false }, page);
  const ids = refused.flatMap(({ attempts, request_id }) => (attempts > 0 ? [request_id] : []));
  const sent = await readRequests(db, ids, archive);
  return refused.map((refusal) => placed(refusal, sent.get(refusal.request_id)));
}

function placed(refusal: RefusedRequestRow, sent: LedgerRequest | undefined): PlacedRequest {
  return {
    requestId: refusal.request_id,
    attempts: sent?.attempts ?? [],
    corrections: sent?.corrections ?? [],
    refusal,
    position: { admittedAt: refusal.refused_at, eventId: refusal.id },
  };
}

type Placed = Pick<PlacedRequest, 'position'>;

function newestFirst({ position: a }: Placed, { position: b }: Placed): number {
  const byTime = b.admittedAt.getTime() - a.admittedAt.getTime();
  return byTime === 0 ? (a.eventId < b.eventId ? 1 : -1) : byTime;
}

/** A request by its id; undefined if there is no trace of it. */
export async function findOneRequest(
  { db, archive }: LedgerDeps,
  requestId: string,
): Promise<FoundRequest | undefined> {
  const sent = await findRequest(db, requestId, archive);
  const refusal = (await readRefusals(db, [requestId])).get(requestId);
  return sent || refusal ? { requestId, attempts: [], corrections: [], ...sent, refusal } : undefined;
}

/** Whose request it is. */
export function principalOf({ attempts, refusal }: FoundRequest): string | undefined {
  return attempts[0]?.principal_id ?? refusal?.principal_id;
}

/** The team that its principal was in; null: none, or it is older than teams. */
export function teamOf({ attempts, refusal }: FoundRequest): string | null {
  return (attempts[0] ?? refusal)?.team_id ?? null;
}

/** The names of the ids in some requests, by id. */
export interface RequestNames {
  readonly teams: ReadonlyMap<string, string>;
  readonly keys: ReadonlyMap<string, string>;
  readonly policies: ReadonlyMap<string, string>;
  readonly connectors: ReadonlyMap<string, string>;
}

/** `policies`: those that are shown of a request. */
export async function readRequestNames(
  db: Database,
  requests: readonly FoundRequest[],
  policies: (request: FoundRequest) => readonly string[],
): Promise<RequestNames> {
  const attempts = requests.flatMap((request) => request.attempts);
  const keys = [...attempts, ...requests.flatMap(({ refusal }) => refusal ?? [])].map((row) => row.key_id);
  return {
    teams: await readResourceNames(
      db,
      'team_id',
      requests.flatMap((request) => teamOf(request) ?? []),
    ),
    keys: await readResourceNames(db, 'key', keys),
    policies: await readResourceNames(db, 'policy', requests.flatMap(policies)),
    connectors: await readResourceNames(
      db,
      'connector',
      attempts.map((row) => row.connector_id),
    ),
  };
}
