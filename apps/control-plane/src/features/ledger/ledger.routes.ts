import type { App } from '../../shared/fastify.ts';
import { LedgerRebuild, NewLedgerRebuild } from './rebuild.schemas.ts';
import { type RebuildDeps, rebuildLedger } from './rebuild.service.ts';

export function ledgerRoutes(app: App, deps: RebuildDeps): void {
  app.post(
    '/ledger/rebuild',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'rebuildLedger',
        summary: 'Compare the buckets with the sums of the ledger, and correct them with `apply`',
        description:
          'Without `apply` nothing changes. With it, the difference is added to each bucket while usage continues to be recorded.',
        body: NewLedgerRebuild,
        response: { 200: LedgerRebuild },
      },
    },
    async (request) => await rebuildLedger(deps, request.caller, request.body.apply),
  );
}
