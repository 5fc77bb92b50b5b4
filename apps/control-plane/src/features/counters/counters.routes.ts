import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { ledTeamsOf, readsAll } from '../../shared/caller.ts';
import type { App } from '../../shared/fastify.ts';
import { policyOfCaller } from '../keys/effectiveKey.ts';
import type { PolicyRow } from '../policies/policies.service.ts';
import { existingPolicy, policyNotFound } from '../policies/policyAdmin.service.ts';
import { isPolicyOfTeams } from '../teams/teams.service.ts';
import { CounterQuery, PolicyCounters } from './counters.schemas.ts';
import { type CounterDeps, countersOfPolicy } from './counters.service.ts';

const Params = Type.Object({ policy_id: Type.String() });

export function counterRoutes(app: App, deps: CounterDeps): void {
  const idOf = ({ params }: FastifyRequest) => (params as Static<typeof Params>).policy_id;
  /** For who does not see all, only the policy that governs it exists, and those of the teams that it leads. */
  const visiblePolicy = async (request: FastifyRequest): Promise<PolicyRow> => {
    const policy = await existingPolicy(deps.db, idOf(request));
    const { caller } = request;
    const isVisible =
      readsAll(caller) ||
      (await policyOfCaller(deps.db, caller))?.id === policy.id ||
      (await isPolicyOfTeams(deps.db, policy.id, ledTeamsOf(caller)));
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
          'What each key or principal, or all together, have spent and may still spend; those that were used in this window. Without a role that sees all: of the policy that governs you, the counters that your own requests count in; a lead sees those of its team.',
        params: Params,
        querystring: CounterQuery,
        response: { 200: PolicyCounters },
      },
    },
    async (request) => countersOfPolicy(deps, request.caller, await visiblePolicy(request), request.query),
  );
}
