import { type Connector, Dialect, Route } from '@weighbridge/contracts';
import { translatedRoute as routeOfTranslation } from '@weighbridge/domain';

/** The routes of the inference API, by their names in the control plane. */
export const ROUTES = {
  chat_completions: Route.CHAT_COMPLETIONS,
  responses: Route.RESPONSES,
  messages: Route.MESSAGES,
  embeddings: Route.EMBEDDINGS,
  generate_content: Route.GENERATE_CONTENT,
  embed_content: Route.EMBED_CONTENT,
  completions: Route.COMPLETIONS,
  converse: Route.CONVERSE,
} as const satisfies Readonly<Record<string, Route>>;

/** A route of the inference API, by its path below `/v1`. Routes below it belong to it. */
export type RouteName = keyof typeof ROUTES;

/** The routes of a connector for which the control plane lists none. */
const ROUTES_OF_DIALECT: Readonly<Partial<Record<Dialect, readonly Route[]>>> = {
  [Dialect.OPENAI]: [Route.CHAT_COMPLETIONS, Route.RESPONSES, Route.EMBEDDINGS, Route.COMPLETIONS],
  [Dialect.ANTHROPIC]: [Route.MESSAGES],
};

export function servesRoute(connector: Connector, route: Route): boolean {
  return routesOf(connector).includes(route);
}

export function routesOf({ routes, dialect }: Connector): readonly Route[] {
  return routes.length > 0 ? routes : (ROUTES_OF_DIALECT[dialect] ?? []);
}

/** What of an operation decides which connectors can answer it. */
export interface RoutedOperation {
  readonly route: Route;
  readonly isTranslated: boolean;
}

/** The connector serves the operation, or one that its requests can be translated to. */
export function canAnswer(connector: Connector, { route, isTranslated }: RoutedOperation): boolean {
  return servesRoute(connector, route) || (isTranslated && translatedRoute(connector) !== undefined);
}

/** The route to which a connector's requests are translated, if they came on one that it does not serve. */
export function translatedRoute(connector: Connector): Route | undefined {
  const name = routeOfTranslation(connector.provider, (route) => servesRoute(connector, ROUTES[route]));
  return name && ROUTES[name];
}

/** The route's public path. */
export const ROUTE_PATHS: Readonly<Record<Route, string>> = {
  [Route.UNSPECIFIED]: '/v1',
  [Route.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Route.RESPONSES]: '/v1/responses',
  [Route.MESSAGES]: '/v1/messages',
  [Route.EMBEDDINGS]: '/v1/embeddings',
  [Route.GENERATE_CONTENT]: '/v1beta/models/{model}:generateContent',
  [Route.EMBED_CONTENT]: '/v1beta/models/{model}:embedContent',
  [Route.COMPLETIONS]: '/v1/completions',
  // Of no client.
  [Route.CONVERSE]: '/v1/chat/completions',
};
