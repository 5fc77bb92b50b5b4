import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { MAX_LIMIT_MICRO_USD, nanoFromMicro } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { readFeedback } from '@weighbridge/evidence';
import { findRequest, findRequests, type LedgerRequest } from '@weighbridge/ledger';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest } from '../../shared/paging.ts';
import {
  checkedRange,
  instant,
  inTime,
  invalid,
  type LedgerFilterValues,
  ledgerFilter,
  type Range,
} from '../spend/ledgerQuery.ts';
import { isRequestId, type PresentedRequest, presentRequest, requestPosition } from './requests.ts';

export interface RequestDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export interface RequestListQuery extends LedgerFilterValues {
  readonly from?: string;
  readonly to?: string;
  readonly request_id?: string;
  readonly session_id?: string;
  readonly outcome?: string;
  readonly min_cost_micro_usd?: string;
  readonly estimated?: 'true' | 'false';
  readonly page_size?: string;
  readonly page_token?: string;
}

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 31;
const MAX_DAYS = 400;
const LIST = 'requests';

/** Requests with an attempt that the query asks for, the newest first. */
export async function listRequests(
  deps: RequestDeps,
  caller: Caller,
  query: RequestListQuery,
): Promise<PageOf<PresentedRequest>> {
  const wanted = pageRequest(LIST, query, (parts) => requestPosition(parts) !== undefined);
  const after = wanted.after && requestPosition(wanted.after);
  const filter = {
    ...ledgerFilter(caller, query, rangeOf(query, deps.now())),
    requestId: query.request_id,
    // Sessions are compared whole; what the ledger shows of one may be cut.
    sessionSha256: query.session_id && createHash('sha256').update(query.session_id).digest('hex'),
    outcome: query.outcome,
    minCost: minCost(query.min_cost_micro_usd),
    estimated: query.estimated && query.estimated === 'true',
  };
  const rows = await inTime(findRequests(deps.db, filter, { after, limit: wanted.size + 1 }));
  const feedback = await readFeedback(
    deps.db,
    rows.map(({ requestId }) => requestId),
  );
  return page(
    LIST,
    wanted,
    rows,
    ({ position }) => [position.admittedAt.toISOString(), position.eventId],
    (request) => presentRequest(request, feedback.get(request.requestId), { toOperator: isOperator(caller) }),
  );
}

/** A request of the caller's own principal, or any for an operator. Any other is not found. */
export async function readRequest(deps: RequestDeps, caller: Caller, id: string): Promise<PresentedRequest> {
  const request = await existingRequest(deps.db, id);
  const isVisible = isOperator(caller) || request.attempts[0].principal_id === caller.principalId;
  if (!isVisible) throw requestNotFound();
  const feedback = await readFeedback(deps.db, [id]);
  return presentRequest(request, feedback.get(id), { toOperator: isOperator(caller) });
}

export async function existingRequest(db: Database, id: string): Promise<LedgerRequest> {
  return (isRequestId(id) ? await findRequest(db, id) : undefined) ?? raise(requestNotFound());
}

export function requestNotFound(): AppError {
  return new AppError('not_found', 'request_not_found', 'The ledger holds no request with this id.', {
    param: 'request_id',
  });
}

/** A request or a session is looked up wherever it is in time; anything else within a month, unless the query says. */
function rangeOf(query: RequestListQuery, now: Date): Range {
  const [from, to] = [instant('from', query.from), instant('to', query.to)];
  if (from === undefined && (query.request_id !== undefined || query.session_id !== undefined)) {
    return { from: new Date(0), to: to ?? new Date(now.getTime() + DAY_MS) };
  }
  // A proxy's clock may run ahead of ours.
  const end = to ?? new Date(Math.max(now.getTime(), from?.getTime() ?? 0) + DAY_MS);
  return checkedRange({ from: from ?? new Date(end.getTime() - DEFAULT_DAYS * DAY_MS), to: end }, MAX_DAYS);
}

function minCost(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,16}$/.test(text) && Number(text) <= MAX_LIMIT_MICRO_USD) return nanoFromMicro(Number(text));
  throw invalid(
    'min_cost_micro_usd',
    `min_cost_micro_usd: must be a whole number from 0 to ${MAX_LIMIT_MICRO_USD}.`,
  );
}
