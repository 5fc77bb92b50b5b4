import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { Evidence, EvidenceQuery } from './evidence.schemas.ts';
import { type EvidenceDeps, listEvidence } from './evidence.service.ts';

export function evidenceRoutes(app: App, deps: EvidenceDeps): void {
  app.get(
    '/evidence',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listEvidence',
        summary:
          'List the evidence on models by workload type, and the choice that `adaptive` derives from it',
        querystring: EvidenceQuery,
        response: { 200: Page(Evidence), 422: Type.Unknown() },
      },
    },
    async (request) => await listEvidence(deps, request.query),
  );
}
