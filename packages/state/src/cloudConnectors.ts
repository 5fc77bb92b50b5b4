import { type Connector, Dialect } from '@weighbridge/contracts';
import { cloudRoute, isCloud } from '@weighbridge/domain';
import type { RoutableConnector } from './connector.ts';
import { type RoutableModel, upstreamNameAt } from './model.ts';
import { ROUTES } from './routes.ts';

type CloudRoute = ReturnType<typeof cloudRoute>;

const partsOf = new WeakMap<RoutableConnector, Map<CloudRoute, RoutableConnector>>();

/**
 * The connector as it is for a model: an account at a cloud with several APIs has one of them for each model, and otherwise the
 * same settings, identity and health.
 */
export function connectorFor(model: RoutableModel, connector: RoutableConnector): RoutableConnector {
  const cloud = connector.identity.case;
  if (!isCloud(cloud)) return connector;
  const route = cloudRoute(cloud, { id: model.id, upstreamName: upstreamNameAt(model, connector) });
  const parts = partsOf.get(connector) ?? new Map<CloudRoute, RoutableConnector>();
  const known = parts.get(route);
  if (known) return known;
  const part = partOf(connector, route);
  partsOf.set(connector, parts.set(route, part));
  return part;
}

function partOf(connector: RoutableConnector, route: CloudRoute): RoutableConnector {
  const dialect: Connector['dialect'] = route === 'messages' ? Dialect.ANTHROPIC : Dialect.OPENAI;
  return { ...connector, dialect, routes: [ROUTES[route]], whole: connector };
}
