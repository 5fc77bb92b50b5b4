import { Route } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import { type ResolvedKey, type RoutableConnector, type RoutingTable, servesRoute } from '@weighbridge/state';
import { responseNotFound } from '../attempt/findStored.ts';
import type { ObjectOwners } from '../control/objectOwners.ts';
import { isObjectId } from '../formats/storedObjects.ts';
import { isAllowed } from '../routing/allowedModels.ts';

interface StoredAt {
  readonly connectors: readonly [RoutableConnector, ...RoutableConnector[]];
  /** The caller made it. */
  readonly isOwn: boolean;
  /** The vendor may still work on it. */
  readonly isUnfinished: boolean;
  /** The memory of the largest container that was recorded with it. */
  readonly containerGb: number;
}

/**
 * The connectors to ask for a stored response: the one that made it; for an id that was never seen here, every one that
 * could have and that the caller's policies allow, by priority. Another principal's response is a 404.
 */
export async function connectorsOfResponse(
  owners: ObjectOwners,
  key: ResolvedKey,
  responseId: string,
  table: RoutingTable,
): Promise<StoredAt> {
  if (!isObjectId(responseId)) throw responseNotFound();
  const owner = await owners.find(responseId, key.principalId);
  if (owner.kind === 'foreign') throw responseNotFound();
  const enabled = [...table.connectors.values()].flat();
  if (owner.kind === 'own') {
    const owning = enabled.find((connector) => connector.id === owner.connectorId);
    const { isUnfinished, containerGb } = owner;
    return { connectors: [owning ?? raise(ownerGone())], isOwn: true, isUnfinished, containerGb };
  }
  if (key.refusesForeignObjects) throw responseNotFound();
  const [first, ...others] = enabled
    .filter((connector) => servesRoute(connector, Route.RESPONSES) && reachesModel(connector, key, table))
    .sort((a, b) => a.priority - b.priority);
  if (!first) throw responseNotFound();
  return { connectors: [first, ...others], isOwn: false, isUnfinished: false, containerGb: 0 };
}

/** A connector is allowed if one of its models is. */
function reachesModel({ provider }: RoutableConnector, key: ResolvedKey, table: RoutingTable): boolean {
  for (const model of table.models.values()) {
    if (model.provider === provider && isAllowed(key, model.id)) return true;
  }
  return false;
}

function ownerGone(): AppError {
  const message = 'The connector that stored this response is no longer enabled.';
  return new AppError('not_found', 'response_not_found', message, { param: 'response_id' });
}
