import { AppError } from '@weighbridge/errors';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import type { StoredPlan } from '../attempt/plan.ts';
import { INPUT_ITEMS, STORED_RESPONSE } from '../formats/operation.ts';
import type { PlanDeps, StoredResponseAction } from './planRequest.ts';
import { connectorsOfResponse } from './storedResponses.ts';
import type { UnfinishedResponses } from './unfinishedResponses.ts';

export interface StoredPlanDeps extends Pick<PlanDeps, 'owners'> {
  readonly unfinished: Pick<UnfinishedResponses, 'settleNow'>;
}

/**
 * Finds the connectors that may have a stored response; rejects with a 404 if the caller may not see it. A response that is not
 * settled yet is settled before it is deleted.
 */
export async function planStored(
  deps: StoredPlanDeps,
  key: ResolvedKey,
  { method, responseId, rest }: StoredResponseAction,
  table: RoutingTable,
): Promise<StoredPlan> {
  const stored = await connectorsOfResponse(deps.owners, key, responseId, table);
  const { connectors, isOwn, isUnfinished, containerGb } = stored;
  const connectorId = connectors[0].id;
  if (isUnfinished && rest === '' && method === 'DELETE') {
    await settleFirst(deps, { responseId, connectorId, principalId: key.principalId });
  }
  // A response that is read or cancelled comes whole, with its usage if it is final.
  const isWhole = rest === '' ? method === 'GET' : rest === '/cancel';
  return {
    kind: 'stored_response',
    operation: rest === '/input_items' ? INPUT_ITEMS : STORED_RESPONSE,
    responseId,
    isOwn,
    containerGb,
    connectors,
    unfinished: isUnfinished && isWhole ? { responseId, connectorId } : undefined,
    method,
    path: `${STORED_RESPONSE.path}/${encodeURIComponent(responseId)}${rest}`,
    hideUsage: false,
  };
}

async function settleFirst(
  { unfinished }: StoredPlanDeps,
  response: Parameters<UnfinishedResponses['settleNow']>[0],
): Promise<void> {
  const settled = await unfinished.settleNow(response).catch((cause: unknown) => {
    const message =
      'What this response cost could not be read and recorded, so it was not deleted. Retry in a moment.';
    throw new AppError('unavailable', 'response_not_settled', message, { cause });
  });
  if (settled === 'not_maker') throw settledElsewhere();
  if (settled === 'settled') return;
  const message =
    'The vendor still works on this response, and what it costs is not known yet, so it was not deleted. Cancel it, or wait until it is complete, and delete it then.';
  throw new AppError('conflict', 'response_unfinished', message, { param: 'response_id' });
}

function settledElsewhere(): AppError {
  const message =
    'Another proxy made this response, and records what it cost within six minutes of its end. It was not deleted. Retry then.';
  return new AppError('unavailable', 'response_not_settled', message, {
    param: 'response_id',
    headers: { 'retry-after': '30' },
    isLogged: false,
  });
}
