import { type Connector, Dialect, Route } from '@weighbridge/contracts';

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
};
