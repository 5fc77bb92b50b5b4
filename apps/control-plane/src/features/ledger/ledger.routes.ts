import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Strict } from '../../shared/schemas.ts';
import { type RebuildDeps, rebuildLedger } from './rebuild.service.ts';

const Nano = Type.String({ description: 'Nano-USD, exact, as a decimal integer.', examples: ['0'] });
const Rebuild = Type.Object(
  {
    applied: Type.Boolean(),
    events: Type.Integer({ description: 'Rows of the ledger that were added up.' }),
    buckets: Type.Integer({ description: 'Counters that were compared.' }),
    difference_nano_usd: Type.String({
      description: 'All that counters were off by, added up without sign; "0" where all is well.',
      examples: ['0'],
    }),
    differing_buckets: Type.Integer(),
    differing_hours: Type.Integer({
      description: 'Sums by the hour, which breakdowns of spend are made of, that were off.',
    }),
    differing: Type.Array(Type.Object({ bucket: Type.String(), difference_nano_usd: Nano }), {
      description: 'What has to be added to which counter; the first 1000.',
    }),
  },
  { title: 'LedgerRebuild' },
);

export function ledgerRoutes(app: App, deps: RebuildDeps): void {
  app.post(
    '/ledger/rebuild',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'rebuildLedger',
        summary: 'Add the ledger up anew and compare the counters with it, or mend them',
        description:
          'Without `apply` nothing is changed. With it, what counters are off by is added to them, while usage goes on being recorded.',
        body: Strict({ apply: Type.Boolean({ examples: [false] }) }),
        response: { 200: Rebuild },
      },
    },
    async (request) => await rebuildLedger(deps, request.caller, request.body.apply),
  );
}
