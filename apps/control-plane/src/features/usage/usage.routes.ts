import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { UsageReport } from './usage.schemas.ts';
import { usageOfCaller, usageOfKey } from './usage.service.ts';

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
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getKeyUsage',
        summary: 'Spend of a runtime key against its governing policy',
        params: Type.Object({ key_id: Type.String() }),
        response: { 200: UsageReport },
      },
    },
    async (request) => await usageOfKey(deps, request.caller, request.params.key_id),
  );
}
