import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { MAX_LIMIT_MICRO_USD, nanoFromMicro } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { readFeedback } from '@weighbridge/evidence';
import { findRequest, findRequests, type LedgerRequest } from '@weighbridge/ledger';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest } from '../../shared/paging.ts';
import { wholeNumber } from '../../shared/wholeNumber.ts';
import { checkedRange, instant, ledgerFilter, type Range, withinTimeout } from '../spend/ledgerQuery.ts';
import type { RequestListQuery, RequestRecord } from './requests.schemas.ts';
import { isRequestId, presentRequest, requestPosition } from './requests.ts';

export interface RequestDeps {
  readonly db: Database;
  readonly now: () => Date;
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 31;
const MAX_DAYS = 400;
const LIST = 'requests';

/** Requests with an attempt that matches the query, newest first. */
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
  const rows = await withinTimeout(findRequests(deps.db, filter, { after, limit: wanted.size + 1 }));
  const feedback = await readFeedback(
    deps.db,
    rows.map(({ requestId }) => requestId),
  );
  return page(
    LIST,
    wanted,
    rows,
    ({ position }) => [position.admittedAt.toISOString(), position.eventId],
    (request) => presentRequest(request, feedback.get(request.requestId), { isOperator: isOperator(caller) }),
  );
}

/** A request of the caller's principal, or any request for an operator; throws 404 for others. */
export async function visibleRequest(deps: RequestDeps, caller: Caller, id: string): Promise<LedgerRequest> {
  const request = await existingRequest(deps.db, id);
  if (isOperator(caller) || request.attempts[0].principal_id === caller.principalId) return request;
  throw requestNotFound();
}

export async function readRequest(deps: RequestDeps, caller: Caller, id: string): Promise<RequestRecord> {
  const request = await visibleRequest(deps, caller, id);
  const feedback = await readFeedback(deps.db, [id]);
  return presentRequest(request, feedback.get(id), { isOperator: isOperator(caller) });
}

export async function existingRequest(db: Database, id: string): Promise<LedgerRequest> {
  return (isRequestId(id) ? await findRequest(db, id) : undefined) ?? raise(requestNotFound());
}

export function requestNotFound(): AppError {
  return new AppError('not_found', 'request_not_found', 'The ledger has no request with this id.', {
    param: 'request_id',
  });
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
