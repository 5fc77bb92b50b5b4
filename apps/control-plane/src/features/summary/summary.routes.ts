import type { App } from '../../shared/fastify.ts';
import { Summary } from './summary.schemas.ts';
import { type SummaryDeps, summary } from './summary.service.ts';

export function summaryRoutes(app: App, deps: SummaryDeps): void {
  app.get(
    '/summary',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getSummary',
        summary: 'Spend today and this month, budgets, latency, overhead, and what needs attention',
        description:
          'Days and months are of UTC. A role that reads all sees all usage, a lead that of its teams, anyone else their own.',
        response: { 200: Summary },
      },
    },
    async (request) => await summary(deps, request.caller),
  );
}
