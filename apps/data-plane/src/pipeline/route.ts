import { Route } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import { ROUTE_PATHS, servesRoute } from '../control/routes.ts';
import type { RoutableConnector, RoutableModel, RoutingTable } from '../control/routingTable.ts';

/** The connectors that may serve a model on a route, in the order in which they are to be tried; at least one. */
export function connectorsFor(
  model: RoutableModel,
  route: Route,
  table: RoutingTable,
): [RoutableConnector, ...RoutableConnector[]] {
  const all = table.connectors.get(model.provider) ?? [];
  const connectors = all.filter((connector) => connector.serves(model.id));
  const [first, ...others] = connectors.filter((connector) => servesRoute(connector, route));
  return first ? [first, ...others] : raise(notServed(model, route, connectors));
}

function notServed(model: RoutableModel, route: Route, connectors: readonly RoutableConnector[]): AppError {
  const [connector] = connectors;
  if (!connector) {
    const message = `No enabled connector serves the model ${model.id}.`;
    return new AppError('not_found', 'model_not_found', message, { param: 'model' });
  }
  const works = GENERATING_ROUTES.find((other) => servesRoute(connector, other));
  const hint = works === undefined ? '' : ` Use ${ROUTE_PATHS[works]}.`;
  const message = `The provider ${model.provider} does not serve ${ROUTE_PATHS[route]}.${hint}`;
  return new AppError('invalid_request', 'route_not_supported', message, { param: 'model' });
}

const GENERATING_ROUTES = [Route.CHAT_COMPLETIONS, Route.MESSAGES, Route.RESPONSES, Route.EMBEDDINGS];
