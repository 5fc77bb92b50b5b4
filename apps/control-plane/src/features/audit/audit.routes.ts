import type { Database } from '@weighbridge/database';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { AuditEntry, AuditListQuery } from './audit.schemas.ts';
import { listAudit } from './audit.service.ts';

export function auditRoutes(app: App, deps: { readonly db: Database }): void {
  app.get(
    '/audit',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listAudit',
        summary: 'List changes, who made them and when, newest first',
        querystring: AuditListQuery,
        response: { 200: Page(AuditEntry) },
      },
    },
    async (request) => await listAudit(deps, request.query),
  );
}
