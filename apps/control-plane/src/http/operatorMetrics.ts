import type { Metrics } from '@weighbridge/runtime';
import { refuseOtherMethods } from '@weighbridge/runtime/fastify';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { type AccessDeps, authenticate } from '../features/access/access.service.ts';
import { assertScope } from '../shared/caller.ts';

/** `GET /metrics` on a port that tenants reach too: they tell of every tenant's use, so it takes an operator's key. */
export function operatorMetrics(
  app: FastifyInstance,
  deps: AccessDeps & { readonly metrics: Metrics },
): void {
  app.register(async (scrape) => {
    const others = refuseOtherMethods(scrape);
    scrape.addHook('onRequest', async ({ headers }) => {
      assertScope(await authenticate(deps, headers.authorization), 'operator');
    });
    scrape.get('/metrics', { schema: { hide: true } as FastifySchema }, async (_request, reply) =>
      reply.type(deps.metrics.contentType).send(await deps.metrics.text()),
    );
    others.register();
  });
}
