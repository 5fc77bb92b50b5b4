import { Route } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import {
  canAnswer,
  connectorFor,
  ROUTE_PATHS,
  type RoutableConnector,
  type RoutableModel,
  type RoutedOperation,
  type RoutingTable,
  servesRoute,
} from '@weighbridge/state';
import type { Target, Targets } from '../control/target.ts';
import { orderConnectors } from './connectorOrder.ts';

/**
 * The targets of a request for these models: model by model, each at its connectors, in the order in which they are tried:
 * those that take the request as it is before those for which it is translated. Throws if there is none.
 */
export function targetsForModels(
  models: readonly [RoutableModel, ...RoutableModel[]],
  operation: RoutedOperation,
  table: RoutingTable,
  draw: (connectorId: string) => number,
): Targets {
  const [model] = models;
  const targets =
    models.length === 1
      ? targetsOf(model, operation, table, draw)
      : models.flatMap((one) => targetsOf(one, operation, table, draw));
  return isNonEmpty(targets) ? targets : raise(notServed(model, operation.route, table));
}

function isNonEmpty(targets: readonly Target[]): targets is Targets {
  return targets.length > 0;
}

function targetsOf(
  model: RoutableModel,
  operation: RoutedOperation,
  table: RoutingTable,
  draw: (connectorId: string) => number,
): readonly Target[] {
  const targets = unorderedTargets(model, operation, table);
  if (targets.length < 2) return targets;
  const connectors = targets.map(({ connector }) => connector);
  const ordered = passingFirst(orderConnectors(connectors, draw), operation);
  return ordered.map((connector) => ({ model, connector }));
}

/** A response that the vendor is to store can't be continued where it is translated: targets that store it come first. */
export function storingFirst(targets: Targets, { route }: RoutedOperation): Targets {
  const isStored = ({ connector }: Target) => servesRoute(connector, route);
  const [first, ...others] = targets.filter(isStored);
  return first ? [first, ...others, ...targets.filter((target) => !isStored(target))] : targets;
}

/** Cached by model object: a new routing table has new ones. */
const cachedTargets = new WeakMap<RoutableModel, Map<RoutedOperation, readonly Target[]>>();

/** The connectors of one model, in their order, but those that serve the operation itself before the others. */
export function passingFirst(
  connectors: readonly RoutableConnector[],
  { route }: RoutedOperation,
): readonly RoutableConnector[] {
  const passes = (connector: RoutableConnector) => servesRoute(connector, route);
  if (connectors.every(passes)) return connectors;
  return [...connectors.filter(passes), ...connectors.filter((connector) => !passes(connector))];
}

function unorderedTargets(
  model: RoutableModel,
  operation: RoutedOperation,
  table: RoutingTable,
): readonly Target[] {
  const byOperation = cachedTargets.get(model) ?? new Map<RoutedOperation, readonly Target[]>();
  const found = byOperation.get(operation);
  if (found) return found;
  const targets = connectorsFor(model, operation, table).map((connector) => ({ model, connector }));
  cachedTargets.set(model, byOperation.set(operation, targets));
  return targets;
}

/** The target of a model at a connector, on any route; undefined if the connector does not serve the model. */
export function targetAt(modelId: string, connectorId: string, table: RoutingTable): Target | undefined {
  const model = table.models.get(modelId);
  const connector = model && servingConnectors(model, table).find(({ id }) => id === connectorId);
  return connector && { model, connector };
}

function connectorsFor(
  model: RoutableModel,
  operation: RoutedOperation,
  table: RoutingTable,
): RoutableConnector[] {
  return servingConnectors(model, table).filter((connector) => canAnswer(connector, operation));
}

/** The connectors that have the model, on any route. */
export function servingConnectors(model: RoutableModel, table: RoutingTable): RoutableConnector[] {
  const all = table.connectors.get(model.provider) ?? [];
  return all
    .filter((connector) => connector.serves(model.id))
    .map((connector) => connectorFor(model, connector));
}

function notServed(model: RoutableModel, route: Route, table: RoutingTable): AppError {
  const [connector] = servingConnectors(model, table);
  if (!connector) {
    const message = `No enabled connector serves the model ${model.id}.`;
    return new AppError('not_found', 'model_not_found', message, { param: 'model' });
  }
  const message = `No connector of the model ${model.id} serves ${ROUTE_PATHS[route]}.${hintFor(model, connector, route)}`;
  return new AppError('invalid_request', 'route_not_supported', message, { param: 'model' });
}

const EMBEDDING_ROUTES: readonly Route[] = [Route.EMBEDDINGS, Route.EMBED_CONTENT];
const GENERATING_ROUTES = [
  Route.CHAT_COMPLETIONS,
  Route.MESSAGES,
  Route.RESPONSES,
  Route.GENERATE_CONTENT,
  Route.COMPLETIONS,
];

/** Names a route at which a model works, as near as there is to one that its connector does not serve; empty if there is none. */
export function hintFor({ capabilities }: RoutableModel, connector: RoutableConnector, route: Route): string {
  const embeds = capabilities.includes('embeddings') || EMBEDDING_ROUTES.includes(route);
  const nearestFirst = embeds
    ? [...EMBEDDING_ROUTES, ...GENERATING_ROUTES]
    : [...GENERATING_ROUTES, ...EMBEDDING_ROUTES];
  const works = nearestFirst.find((other) => servesRoute(connector, other));
  return works === undefined ? '' : ` Use ${ROUTE_PATHS[works]}.`;
}
