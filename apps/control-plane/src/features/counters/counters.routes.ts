import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { isOperator } from '../../shared/caller.ts';
import type { App } from '../../shared/fastify.ts';
import { policyOfCaller } from '../keys/effectiveKey.ts';
import type { PolicyRow } from '../policies/policies.service.ts';
import { existingPolicy, policyNotFound } from '../policies/policyAdmin.service.ts';
import { CounterQuery, PolicyCounters } from './counters.schemas.ts';
import { type CounterDeps, countersOfPolicy } from './counters.service.ts';

const Params = Type.Object({ policy_id: Type.String() });

export function counterRoutes(app: App, deps: CounterDeps): void {
  const idOf = ({ params }: FastifyRequest) => (params as Static<typeof Params>).policy_id;
  /** Without the scope operator, only the policy that governs the caller exists. */
  const visiblePolicy = async (request: FastifyRequest): Promise<PolicyRow> => {
    const policy = await existingPolicy(deps.db, idOf(request));
    const isVisible =
      isOperator(request.caller) || (await policyOfCaller(deps.db, request.caller))?.id === policy.id;
    if (!isVisible) throw policyNotFound();
    return policy;
  };
  app.get(
    '/policies/:policy_id/counters',
    {
      config: { scope: 'usage:read', assertExists: visiblePolicy },
      schema: {
        operationId: 'listPolicyCounters',
        summary: "The counters of a policy's current window",
        description:
          'What each key or principal, or all together, have spent and may still spend; those that were used in this window. Without the scope `operator`: of the policy that governs you, the counters that your own requests count in.',
        params: Params,
        querystring: CounterQuery,
        response: { 200: PolicyCounters },
      },
    },
    async (request) => countersOfPolicy(deps, request.caller, await visiblePolicy(request), request.query),
  );
}
