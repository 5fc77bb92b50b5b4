import type { StoredPlan } from '../attempt/plan.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutingTable } from '../control/routingTable.ts';
import { INPUT_ITEMS, STORED_RESPONSE } from '../formats/operation.ts';
import type { PlanDeps, StoredResponseAction } from './planRequest.ts';
import { connectorsOfResponse } from './storedResponses.ts';

/** Finds the connectors that may have a stored response; rejects with a 404 if the caller may not see it. */
export async function planStored(
  deps: Pick<PlanDeps, 'owners'>,
  key: ResolvedKey,
  { method, responseId, rest }: StoredResponseAction,
  table: RoutingTable,
): Promise<StoredPlan> {
  const { connectors, isOwn, isUnfinished } = await connectorsOfResponse(deps.owners, key, responseId, table);
  // A response that is read or cancelled comes whole, with its usage if it is final.
  const isWhole = rest === '' ? method === 'GET' : rest === '/cancel';
  return {
    kind: 'stored_response',
    operation: rest === '/input_items' ? INPUT_ITEMS : STORED_RESPONSE,
    responseId,
    isOwn,
    connectors,
    unfinished: isUnfinished && isWhole ? { responseId, connectorId: connectors[0].id } : undefined,
    method,
    path: `${STORED_RESPONSE.path}/${encodeURIComponent(responseId)}${rest}`,
    hideUsage: false,
  };
}
