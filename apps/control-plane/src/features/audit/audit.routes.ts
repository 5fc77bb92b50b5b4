import type { Database } from '@weighbridge/database';
import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';
import { listAudit } from './audit.service.ts';

const AuditEntry = Type.Object(
  {
    id: Type.String(),
    at: DateTime,
    actor_principal_id: Type.String(),
    actor_key_id: Nullable(Type.String()),
    actor_oidc_issuer: Nullable(
      Type.String({ description: 'Where it was done by a token: who issued that.' }),
    ),
    actor_oidc_subject: Nullable(
      Type.String({ description: 'And to whom, as the issuer names it (`sub`).' }),
    ),
    action: Type.String({ description: 'resource.verb, such as key.created' }),
    resource_id: Type.String(),
    detail: Type.Record(Type.String(), Type.Unknown()),
  },
  { title: 'AuditEntry' },
);

const Text = Type.Optional(Type.String({ minLength: 1, maxLength: 200 }));
const AuditList = Strict({
  ...PageQuery,
  resource_id: Text,
  actor_principal_id: Text,
  action: Text,
  from: Type.Optional(DateTime),
  to: Type.Optional(DateTime),
});

export function auditRoutes(app: App, deps: { readonly db: Database }): void {
  app.get(
    '/audit',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listAudit',
        summary: 'What was changed, by whom and when, the newest first',
        querystring: AuditList,
        response: { 200: Page(AuditEntry) },
      },
    },
    async (request) => await listAudit(deps, request.query),
  );
}
