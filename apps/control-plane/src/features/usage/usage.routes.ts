import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { DateTime, MicroUsd, Nullable, OneOf } from '../../shared/schemas.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { usageOfCaller, usageOfKey } from './usage.service.ts';

const UsageReport = Type.Object(
  {
    policy_id: Type.String(),
    source: OneOf(['key', 'principal', 'default']),
    active: Type.Boolean(),
    counter_scope: OneOf(['key', 'principal', 'policy']),
    pooled: Type.Boolean(),
    limit_micro_usd: Nullable(MicroUsd),
    window_start: DateTime,
    reset: Nullable(DateTime),
    window_unbounded: Type.Boolean(),
    bucket_spent_micro_usd: MicroUsd,
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'All usage that proxies had settled until then is in it.',
    }),
    principal_spent_micro_usd: Type.Integer({
      description: "The principal's spend over all its keys under this policy in this window.",
    }),
    principal_spent_from: Type.String({
      format: 'date-time',
      description: "The window's start; later only where the ledger does not reach back so far.",
    }),
    principal_spent_complete: Type.Boolean({
      description:
        'Whether that is all of it: no proxy was lost with usage, nothing is missing or in quarantine.',
    }),
    remaining_micro_usd: Nullable(MicroUsd),
    queried_at: DateTime,
  },
  { title: 'UsageReport' },
);

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
