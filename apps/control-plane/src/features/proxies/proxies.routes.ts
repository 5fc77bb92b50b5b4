import type { Database } from '@weighbridge/database';
import { Type } from 'typebox';
import type { App } from '../../http/fastify.ts';
import { Page, PageQuery } from '../../http/paging.ts';
import { DateTime, OneOf, Strict } from '../../http/schemas.ts';
import { listProxies } from './proxies.service.ts';

const WatchingProxy = Type.Object({
  id: Type.String(),
  name: Type.String({ description: 'The host or pod that it runs on.' }),
  version: Type.String(),
  applied_revision: Type.Integer(),
  lag: Type.Integer({ description: 'How many revisions it is behind.' }),
  in_flight_requests: Type.Integer(),
  waiting_usage_bytes: Type.Integer({ description: 'Usage that it has not handed over yet.' }),
  connected_at: DateTime,
  last_seen_at: DateTime,
  may_serve_until: DateTime,
});

export function proxyRoutes(app: App, deps: { readonly db: Database }): void {
  app.get(
    '/proxies',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listProxies',
        summary: 'The proxies that may serve now, and what each of them has applied',
        querystring: Strict({
          ...PageQuery,
          all: Type.Optional(OneOf(['true', 'false'], { description: 'Also those that may serve no more.' })),
        }),
        response: { 200: Page(WatchingProxy) },
      },
    },
    async (request) => await listProxies(deps, request.query),
  );
}
