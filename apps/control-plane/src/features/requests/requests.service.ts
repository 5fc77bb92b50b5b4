import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { MAX_LIMIT_MICRO_USD, nanoFromMicro } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { readFeedback } from '@weighbridge/evidence';
import { findRequest, type LedgerRequest, type RequestPosition } from '@weighbridge/ledger';
import { type Caller, ledTeamsOf, readsAll, readsAllSpend } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest } from '../../shared/paging.ts';
import { wholeNumber } from '../../shared/wholeNumber.ts';
import { checkedRange, instant, ledgerFilter, type Range, withinTimeout } from '../spend/ledgerQuery.ts';
import { findPoliciesOfTeams } from '../teams/teams.service.ts';
import { costsOf } from './costByClass.service.ts';
import {
  type FoundRequest,
  findAllRequests,
  findOneRequest,
  type LedgerDeps,
  principalOf,
  readRequestNames,
  teamOf,
} from './foundRequests.ts';
import type { RequestDetail, RequestListQuery, RequestRecord } from './requests.schemas.ts';
import { isRequestId, presentRequest, requestPosition, shownPolicies } from './requests.ts';

export interface RequestDeps extends LedgerDeps {
  readonly now: () => Date;
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 31;
const MAX_DAYS = 400;
const LIST = 'requests';

/** Requests with an attempt that matches the query, and refused ones that do, newest first. */
export async function listRequests(
  deps: RequestDeps,
  caller: Caller,
  query: RequestListQuery,
): Promise<PageOf<RequestRecord>> {
  const wanted = pageRequest(LIST, query, (parts) => requestPosition(parts) !== undefined);
  const after = wanted.after && requestPosition(wanted.after);
  const filter = {
    ...ledgerFilter(caller, query, rangeOf(query, deps.now())),
    requestId: query.request_id,
    // The hash covers the whole session id; the ledger may show a cut one.
    sessionSha256: query.session_id && createHash('sha256').update(query.session_id).digest('hex'),
    outcome: query.outcome,
    minCost: minCost(query.min_cost_micro_usd),
    estimated: query.estimated && query.estimated === 'true',
    priceIncomplete: query.price_incomplete && query.price_incomplete === 'true',
  };
  const { requests, searchedTo } = await withinTimeout(
    findAllRequests(deps, filter, { after, limit: wanted.size + 1 }),
  );
  const present = await presenterFor(deps.db, caller, requests);
  const token = ({ admittedAt, eventId }: RequestPosition) => [admittedAt.toISOString(), eventId];
  return page(
    LIST,
    wanted,
    requests,
    ({ position }) => token(position),
    present,
    searchedTo && token(searchedTo),
  );
}

/** A request of the caller's principal or of a team that it leads, or any for who sees all; throws 404 for others. */
export async function visibleRequest(deps: RequestDeps, caller: Caller, id: string): Promise<FoundRequest> {
  const request = isRequestId(id) ? await findOneRequest(deps, id) : undefined;
  if (request && isVisible(caller, request)) return request;
  throw requestNotFound();
}

function isVisible(caller: Caller, request: FoundRequest): boolean {
  if (readsAllSpend(caller) || principalOf(request) === caller.principalId) return true;
  const teamId = teamOf(request);
  return teamId !== null && ledTeamsOf(caller).includes(teamId);
}

export async function readRequest(deps: RequestDeps, caller: Caller, id: string): Promise<RequestDetail> {
  const request = await visibleRequest(deps, caller, id);
  const present = await presenterFor(deps.db, caller, [request]);
  return { ...present(request), costs: await costsOf(deps.db, request.attempts) };
}

/** Reads what these requests are shown with. */
async function presenterFor(
  db: Database,
  caller: Caller,
  requests: readonly FoundRequest[],
): Promise<(request: FoundRequest) => RequestRecord> {
  const led = new Set(await findPoliciesOfTeams(db, ledTeamsOf(caller)));
  const viewer = {
    seesAll: readsAll(caller),
    // Spend has them too: that of everyone for finance, and for a lead that of its teams.
    seesPolicy: (policyId: string) => readsAllSpend(caller) || led.has(policyId),
  };
  const feedback = await readFeedback(
    db,
    requests.map(({ requestId }) => requestId),
  );
  const names = await readRequestNames(db, requests, (request) => shownPolicies(request, viewer));
  return (request) => presentRequest(request, names, feedback.get(request.requestId), viewer);
}

/** A request with attempts; throws 404 for others. */
export async function existingRequest({ db, archive }: LedgerDeps, id: string): Promise<LedgerRequest> {
  return (isRequestId(id) ? await findRequest(db, id, archive) : undefined) ?? raise(requestNotFound());
}

export function requestNotFound(): AppError {
  return new AppError(
    'not_found',
    'request_not_found',
    'There is no request with this id. The rows of refused requests are deleted after a while.',
    {
      param: 'request_id',
    },
  );
}

/** By default the last month; for a request id or a session, all time. */
function rangeOf(query: RequestListQuery, now: Date): Range {
  const [from, to] = [instant('from', query.from), instant('to', query.to)];
  if (from === undefined && (query.request_id !== undefined || query.session_id !== undefined)) {
    return { from: new Date(0), to: to ?? new Date(now.getTime() + DAY_MS) };
  }
  // The clock of a proxy may be ahead of this one.
  const end = to ?? new Date(Math.max(now.getTime(), from?.getTime() ?? 0) + DAY_MS);
  return checkedRange({ from: from ?? new Date(end.getTime() - DEFAULT_DAYS * DAY_MS), to: end }, MAX_DAYS);
}

function minCost(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  return nanoFromMicro(wholeNumber('min_cost_micro_usd', text, 0, MAX_LIMIT_MICRO_USD));
}
