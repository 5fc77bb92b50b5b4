import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { ProxyListQuery, ProxyResource } from './proxies.schemas.ts';
import { existingProxy, listProxies, type ProxyAdminDeps, retireProxy } from './proxyAdmin.service.ts';

const ProxyParams = Type.Object({ proxy_id: Type.String() });

export function proxyRoutes(app: App, deps: ProxyAdminDeps): void {
  app.get(
    '/proxies',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listProxies',
        summary: 'List the proxies that may serve now, or whose usage may be incomplete',
        description:
          'Shows the revision that each proxy has applied, and how much of its usage the ledger has. A proxy whose usage is `open` holds back `bucket_as_of`; one whose usage is `lost` makes spend incomplete.',
        querystring: ProxyListQuery,
        response: { 200: Page(ProxyResource) },
      },
    },
    async (request) => await listProxies(deps, request.query),
  );

  app.post(
    '/proxies/:proxy_id/retire',
    {
      config: {
        scope: 'operator',
        assertExists: async (request) =>
          await existingProxy(deps.db, (request.params as Static<typeof ProxyParams>).proxy_id),
      },
      schema: {
        operationId: 'retireProxy',
        summary: 'Accept the loss of the missing usage of a lost proxy',
        description:
          'Spend is then reported as complete without it. 409 unless its usage is `lost`. Usage that arrives later is still recorded.',
        params: ProxyParams,
        response: { 200: ProxyResource },
      },
    },
    async (request) => await retireProxy(deps, request.caller, request.params.proxy_id),
  );
}
