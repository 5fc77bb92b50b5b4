import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { RequestDetail, RequestListQuery, RequestRecord } from './requests.schemas.ts';
import { listRequests, type RequestDeps, readRequest, visibleRequest } from './requests.service.ts';

const RequestParams = Type.Object({ request_id: Type.String() });

export function requestRoutes(app: App, deps: RequestDeps): void {
  app.get(
    '/requests',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'listRequests',
        summary: 'List requests in the ledger, newest first',
        querystring: RequestListQuery,
        response: { 200: Page(RequestRecord) },
      },
    },
    async (request) => await listRequests(deps, request.caller, request.query),
  );

  app.get(
    '/requests/:request_id',
    {
      config: {
        scope: 'usage:read',
        assertExists: async (request) =>
          await visibleRequest(
            deps,
            request.caller,
            (request.params as Static<typeof RequestParams>).request_id,
          ),
      },
      schema: {
        operationId: 'getRequest',
        summary: 'Retrieve a request with all its attempts',
        params: RequestParams,
        response: { 200: RequestDetail },
      },
    },
    async (request) => await readRequest(deps, request.caller, request.params.request_id),
  );
}
