import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { type KeyDeps, visibleKey } from '../keys/keys.service.ts';
import { UsageReport } from './usage.schemas.ts';
import { usageOfCaller, usageOfKey } from './usage.service.ts';

const KeyParams = Type.Object({ key_id: Type.String() });

export function usageRoutes(app: App, deps: KeyDeps): void {
  app.get(
    '/usage',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getUsage',
        summary: 'Spend of the calling principal against its governing policy',
        response: { 200: UsageReport },
      },
    },
    async (request) => await usageOfCaller(deps, request.caller),
  );

  app.get(
    '/keys/:key_id/usage',
    {
      config: {
        scope: 'usage:read',
        assertExists: async (request) =>
          await visibleKey(deps, request.caller, (request.params as Static<typeof KeyParams>).key_id),
      },
      schema: {
        operationId: 'getKeyUsage',
        summary: 'Spend of a runtime key against its governing policy',
        params: KeyParams,
        response: { 200: UsageReport },
      },
    },
    async (request) => await usageOfKey(deps, request.caller, request.params.key_id),
  );
}
