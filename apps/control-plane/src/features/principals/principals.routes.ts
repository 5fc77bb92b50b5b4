import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';
import { listPrincipals, type PrincipalDeps, putPrincipal, readPrincipal } from './principals.service.ts';

const Principal = Type.Object(
  { id: Type.String(), policy_id: Nullable(Type.String()), created_at: DateTime },
  { title: 'Principal' },
);
const PrincipalParams = Type.Object({ principal_id: Type.String() });
const PrincipalList = Strict({
  ...PageQuery,
  policy_id: Type.Optional(Type.String()),
  id_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});

export function principalRoutes(app: App, deps: PrincipalDeps): void {
  const config = { scope: 'operator' } as const;

  app.get(
    '/principals',
    {
      config,
      schema: {
        operationId: 'listPrincipals',
        summary: 'List principals by id',
        querystring: PrincipalList,
        response: { 200: Page(Principal) },
      },
    },
    async (request) => await listPrincipals(deps, request.query),
  );

  app.get(
    '/principals/:principal_id',
    {
      config,
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
      config,
      schema: {
        operationId: 'putPrincipal',
        summary: 'Create a principal, or give it another policy',
        params: PrincipalParams,
        body: Strict({ policy_id: Nullable(Type.String()) }, { title: 'PrincipalChanges' }),
        response: { 200: Principal },
      },
    },
    async (request) => await putPrincipal(deps, request.caller, request.params.principal_id, request.body),
  );
}
