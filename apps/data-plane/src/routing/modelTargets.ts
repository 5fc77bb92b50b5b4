import { Route } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import { ROUTE_PATHS, servesRoute } from '../control/connectorRoutes.ts';
import type { RoutableConnector, RoutableModel, RoutingTable } from '../control/routingTable.ts';
import type { Target, Targets } from '../control/target.ts';
import { orderConnectors } from './connectorOrder.ts';

/**
 * The targets of a request for these models on a route: model by model, each at its connectors, in the order in which they
 * are tried. Throws if there is none.
 */
export function targetsForModels(
  models: readonly [RoutableModel, ...RoutableModel[]],
  route: Route,
  table: RoutingTable,
  draw: (connectorId: string) => number,
): Targets {
  const [model] = models;
  const targets =
    models.length === 1
      ? targetsOf(model, route, table, draw)
      : models.flatMap((one) => targetsOf(one, route, table, draw));
  return isNonEmpty(targets) ? targets : raise(notServed(model, route, table));
}

function isNonEmpty(targets: readonly Target[]): targets is Targets {
  return targets.length > 0;
}

function targetsOf(
  model: RoutableModel,
  route: Route,
  table: RoutingTable,
  draw: (connectorId: string) => number,
): readonly Target[] {
  const targets = unorderedTargets(model, route, table);
  if (targets.length < 2) return targets;
  const connectors = targets.map(({ connector }) => connector);
  return orderConnectors(connectors, draw).map((connector) => ({ model, connector }));
}

/** Cached by model object: a new routing table has new ones. */
const cachedTargets = new WeakMap<RoutableModel, Map<Route, readonly Target[]>>();

function unorderedTargets(model: RoutableModel, route: Route, table: RoutingTable): readonly Target[] {
  const byRoute = cachedTargets.get(model) ?? new Map<Route, readonly Target[]>();
  const found = byRoute.get(route);
  if (found) return found;
  const targets = connectorsFor(model, route, table).map((connector) => ({ model, connector }));
  cachedTargets.set(model, byRoute.set(route, targets));
  return targets;
}

/** The target of a model at a connector, on any route; undefined if the connector does not serve the model. */
export function targetAt(modelId: string, connectorId: string, table: RoutingTable): Target | undefined {
  const model = table.models.get(modelId);
  const connector = model && servingConnectors(model, table).find(({ id }) => id === connectorId);
  return connector && { model, connector };
}

function connectorsFor(model: RoutableModel, route: Route, table: RoutingTable): RoutableConnector[] {
  return servingConnectors(model, table).filter((connector) => servesRoute(connector, route));
}

/** The connectors that have the model, on any route. */
export function servingConnectors(model: RoutableModel, table: RoutingTable): RoutableConnector[] {
  const all = table.connectors.get(model.provider) ?? [];
  return all.filter((connector) => connector.serves(model.id));
}

function notServed(model: RoutableModel, route: Route, table: RoutingTable): AppError {
  const [connector] = servingConnectors(model, table);
  if (!connector) {
    const message = `No enabled connector serves the model ${model.id}.`;
    return new AppError('not_found', 'model_not_found', message, { param: 'model' });
  }
  const works = GENERATING_ROUTES.find((other) => servesRoute(connector, other));
  const hint = works === undefined ? '' : ` Use ${ROUTE_PATHS[works]}.`;
  const message = `No connector of the model ${model.id} serves ${ROUTE_PATHS[route]}.${hint}`;
  return new AppError('invalid_request', 'route_not_supported', message, { param: 'model' });
}

const GENERATING_ROUTES = [
  Route.CHAT_COMPLETIONS,
  Route.MESSAGES,
  Route.RESPONSES,
  Route.EMBEDDINGS,
  Route.GENERATE_CONTENT,
  Route.COMPLETIONS,
];
