import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { Strict } from '../../shared/schemas.ts';
import { Model } from './models.schemas.ts';
import { listModels, type ModelDeps } from './models.service.ts';

export function modelRoutes(app: App, deps: ModelDeps): void {
  app.get(
    '/models',
    {
      config: { scope: 'models:read' },
      schema: {
        operationId: 'listModels',
        summary: 'List the models that the key can route to',
        querystring: Strict(PageQuery),
        response: { 200: Page(Model) },
      },
    },
    async (request) => await listModels(deps, request.caller, request.query),
  );
}
