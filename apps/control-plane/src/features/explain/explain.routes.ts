import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { existingProfile } from '../profiles/profiles.service.ts';
import { ExplainNameRequest, ExplainRequest, Explanation } from './explain.schemas.ts';
import { type ExplainDeps, explainName, explainProfile } from './explain.service.ts';

const ProfileParams = Type.Object({ profile_id: Type.String() });

export function explainRoutes(app: App, deps: ExplainDeps): void {
  app.post(
    '/profiles/:profile_id/explain',
    {
      config: {
        scope: 'operator',
        reads: true,
        assertExists: async (request) =>
          await existingProfile(deps.db, (request.params as Static<typeof ProfileParams>).profile_id),
      },
      schema: {
        operationId: 'explainProfile',
        summary: 'Explain where a request to a routing profile would go',
        params: ProfileParams,
        body: ExplainRequest,
        response: { 200: Explanation },
      },
    },
    async (request) => await explainProfile(deps, request.caller, request.params.profile_id, request.body),
  );

  app.post(
    '/explain',
    {
      config: { scope: 'operator', reads: true },
      schema: {
        operationId: 'explainName',
        summary: 'Explain what a name stands for, and where a request with it would go',
        body: ExplainNameRequest,
        response: { 200: Explanation },
      },
    },
    async (request) => await explainName(deps, request.caller, request.body),
  );
}
