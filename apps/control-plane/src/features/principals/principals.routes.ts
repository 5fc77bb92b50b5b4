import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
import { Principal, PrincipalChanges, PrincipalListQuery } from './principals.schemas.ts';
import {
  assertPrincipalId,
  listPrincipals,
  type PrincipalDeps,
  putPrincipal,
  readPrincipal,
} from './principals.service.ts';

const PrincipalParams = Type.Object({ principal_id: Type.String() });

export function principalRoutes(app: App, deps: PrincipalDeps): void {
  const config = { scope: 'operator' } as const;
  const versioned = versionedFields(Principal, 'team_name');
  const idOf = ({ params }: FastifyRequest) => (params as Static<typeof PrincipalParams>).principal_id;

  app.get(
    '/principals',
    {
      config,
      schema: {
        operationId: 'listPrincipals',
        summary: 'List principals by id',
        querystring: PrincipalListQuery,
        response: { 200: Page(Principal) },
      },
    },
    async (request) => await listPrincipals(deps, request.query),
  );

  app.get(
    '/principals/:principal_id',
    {
      config: {
        ...config,
        versioned,
        assertExists: async (request) => await readPrincipal(deps, idOf(request)),
      },
      schema: {
        operationId: 'getPrincipal',
        summary: 'Retrieve a principal',
        params: PrincipalParams,
        response: { 200: Principal },
      },
    },
    async (request) => await readPrincipal(deps, request.params.principal_id),
  );

  app.put(
    '/principals/:principal_id',
    {
      config: {
        ...config,
        versioned,
        propagates: true,
        assertExists: async (request) => assertPrincipalId(idOf(request)),
      },
      schema: {
        operationId: 'putPrincipal',
        summary: 'Create a principal, or change its policy, its role or whether it is active',
        params: PrincipalParams,
        body: PrincipalChanges,
        response: { 200: Principal },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await putPrincipal(deps, caller, params.principal_id, body, assertMatch),
  );
}
