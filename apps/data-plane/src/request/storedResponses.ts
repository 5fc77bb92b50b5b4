import { Route } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import { servesRoute } from '../control/connectorRoutes.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { ResponseOwners } from '../control/responseOwners.ts';
import type { RoutableConnector, RoutingTable } from '../control/routingTable.ts';
import { isResponseId } from '../formats/responseId.ts';

interface StoredAt {
  readonly connectors: readonly [RoutableConnector, ...RoutableConnector[]];
  /** The vendor may still work on it. */
  readonly isUnfinished: boolean;
}

/**
 * The connectors to ask for a stored response: the one that made it; for an id that was never seen here, every one that
 * could have and that the caller's policies allow, by priority. Another principal's response is a 404.
 */
export async function connectorsOfResponse(
  owners: ResponseOwners,
  key: ResolvedKey,
  responseId: string,
  table: RoutingTable,
): Promise<StoredAt> {
  if (!isResponseId(responseId) || !isSegment(responseId)) throw notFound(responseId);
  const owner = await owners.find(responseId, key.principalId);
  if (owner.kind === 'foreign') throw notFound(responseId);
  const enabled = [...table.connectors.values()].flat();
  if (owner.kind === 'own') {
    const owning = enabled.find((connector) => connector.id === owner.connectorId);
    return { connectors: [owning ?? raise(ownerGone())], isUnfinished: owner.isUnfinished };
  }
  const [first, ...others] = enabled
    .filter((connector) => servesRoute(connector, Route.RESPONSES) && isAllowed(connector, key, table))
    .sort((a, b) => a.priority - b.priority);
  return first ? { connectors: [first, ...others], isUnfinished: false } : raise(notFound(responseId));
}

/**
 * Checks that a request may continue a stored response, which is another way to read one; returns the id of the connector
 * that stored it, undefined if that is unknown.
 */
export async function ownerOfPrevious(
  owners: ResponseOwners,
  key: ResolvedKey,
  responseId: string,
): Promise<string | undefined> {
  // An id of another shape is never saved, so it has no owner.
  if (!isResponseId(responseId)) throw notFound(responseId, 'previous_response_id');
  const owner = await owners.find(responseId, key.principalId);
  if (owner.kind === 'foreign') throw notFound(responseId, 'previous_response_id');
  return owner.kind === 'own' ? owner.connectorId : undefined;
}

/** The id is one segment of the vendor's path. */
function isSegment(id: string): boolean {
  return id !== '.' && id !== '..';
}

/** A connector is allowed if one of its models is. */
function isAllowed({ provider }: RoutableConnector, key: ResolvedKey, table: RoutingTable): boolean {
  for (const model of table.models.values()) {
    if (model.provider === provider && key.policies.every((policy) => policy.allows(model.id))) return true;
  }
  return false;
}

function notFound(id: string, param = 'response_id'): AppError {
  const shown = id.length <= 100 ? id : `${id.slice(0, 100)}…`;
  return new AppError('not_found', 'response_not_found', `There is no response ${shown}.`, { param });
}

function ownerGone(): AppError {
  const message = 'The connector that stored this response is no longer enabled.';
  return new AppError('not_found', 'response_not_found', message, { param: 'response_id' });
}
