import { STAGES, STRATEGIES } from '@weighbridge/domain';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { existingProfile } from '../profiles/profiles.service.ts';
import { type ExplainDeps, explainProfile } from './explain.service.ts';

const Route = OneOf(['chat_completions', 'responses', 'messages', 'embeddings']);

const Price = Type.Object({
  currency_code: Type.Literal('USD'),
  units: Type.Integer(),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
});

const ExplainRequest = Strict(
  {
    route: Type.Optional(Route),
    key_id: Type.Optional(Type.String({ description: 'Whose policies hold. Not together with policy_id.' })),
    policy_id: Type.Optional(
      Type.String({
        description: 'This policy and its parents hold. Without key_id and policy_id, none does.',
      }),
    ),
    workload_type: Type.Optional(
      Type.String({ maxLength: 1_000, description: 'As in X-Svc-Workload-Type.' }),
    ),
    session_id: Type.Optional(Type.String({ maxLength: 1_000, description: 'As in X-Svc-Session-Id.' })),
  },
  { title: 'ExplainRequest' },
);

const Explanation = Type.Object(
  {
    profile_id: Type.String(),
    model: Type.String(),
    strategy: OneOf(STRATEGIES),
    route: Route,
    policies: Type.Array(Type.String()),
    chosen: Nullable(
      Type.Object(
        { model: Type.String(), connector_id: Type.String() },
        { description: 'Where the request goes first; null where nothing is left.' },
      ),
    ),
    refusal: Nullable(
      Type.Object(
        { status: Type.Integer(), code: Type.String() },
        { description: 'What its caller is told where nothing is left; null where something is.' },
      ),
    ),
    models: Type.Array(
      Type.Object({
        model: Type.String(),
        why: Type.String(),
        connectors: Type.Array(
          Type.Object({
            connector_id: Type.String(),
            name: Type.String(),
            priority: Type.Integer(),
            weight: Type.Integer(),
            input_price: Price,
            output_price: Price,
            price_source: OneOf(['catalog', 'connector']),
          }),
        ),
      }),
      { description: 'In the order in which they are tried.' },
    ),
    excluded: Type.Array(
      Type.Object({
        model: Type.String(),
        connector_id: Nullable(Type.String()),
        stage: OneOf(STAGES),
        why: Type.String(),
      }),
      { description: 'Models, and connectors of theirs, that are not used.' },
    ),
    not_known: Type.Array(Type.String(), {
      description: 'What may make a request go elsewhere all the same.',
    }),
  },
  { title: 'Explanation' },
);
const ProfileParams = Type.Object({ profile_id: Type.String() });

export function explainRoutes(app: App, deps: ExplainDeps): void {
  const profileExists = async (request: FastifyRequest): Promise<void> => {
    await existingProfile(deps.db, (request.params as Static<typeof ProfileParams>).profile_id);
  };

  app.post(
    '/profiles/:profile_id/explain',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'explainProfile',
        summary: 'Say where a request to a routing profile would go, and why',
        params: ProfileParams,
        body: ExplainRequest,
        response: { 200: Explanation },
      },
      preParsing: profileExists,
    },
    async (request) => await explainProfile(deps, request.caller, request.params.profile_id, request.body),
  );
}
