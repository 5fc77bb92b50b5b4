import { STAGES } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { Money } from '../catalog/prices.schemas.ts';
import { Strategy } from '../profiles/profiles.schemas.ts';

const Route = OneOf(
  [
    'chat_completions',
    'responses',
    'messages',
    'embeddings',
    'generate_content',
    'embed_content',
    'completions',
  ],
  { title: 'Route' },
);

/** The facts of a request that its routing depends on. */
export const ExplainRequest = Strict(
  {
    route: Type.Optional(Route),
    key_id: Type.Optional(
      Type.String({ description: 'The key whose policies apply. Not together with policy_id.' }),
    ),
    policy_id: Type.Optional(
      Type.String({
        description:
          'A policy that applies, with its parents. Without key_id and policy_id, no policy applies.',
      }),
    ),
    workload_type: Type.Optional(
      Type.String({ maxLength: 1_000, description: 'The value of X-Svc-Workload-Type.' }),
    ),
    session_id: Type.Optional(
      Type.String({ maxLength: 1_000, description: 'The value of X-Svc-Session-Id.' }),
    ),
  },
  { title: 'ExplainRequest' },
);
export type ExplainRequest = Static<typeof ExplainRequest>;

const ExplainedConnector = Type.Object(
  {
    connector_id: Type.String(),
    name: Type.String(),
    priority: Type.Integer(),
    weight: Type.Integer(),
    input_price: Money,
    output_price: Money,
    price_source: OneOf(['catalog', 'connector'], { title: 'PriceSource' }),
  },
  { title: 'ExplainedConnector' },
);

export const Explanation = Type.Object(
  {
    profile_id: Type.String(),
    model: Type.String(),
    strategy: Strategy,
    route: Route,
    policies: Type.Array(Type.String()),
    chosen: Nullable(
      Type.Object(
        { model: Type.String(), connector_id: Type.String() },
        {
          title: 'ExplainedChoice',
          description: 'The first target of the request; null if no target is left.',
        },
      ),
    ),
    refusal: Nullable(
      Type.Object(
        { status: Type.Integer(), code: Type.String() },
        { title: 'ExplainedRefusal', description: 'The error if no target is left; otherwise null.' },
      ),
    ),
    models: Type.Array(
      Type.Object(
        { model: Type.String(), why: Type.String(), connectors: Type.Array(ExplainedConnector) },
        { title: 'ExplainedModel' },
      ),
      { description: 'The models in the order in which they are tried.' },
    ),
    excluded: Type.Array(
      Type.Object(
        {
          model: Type.String(),
          connector_id: Nullable(Type.String()),
          stage: OneOf(STAGES, { title: 'ExclusionStage' }),
          why: Type.String(),
        },
        { title: 'ExcludedModel' },
      ),
      {
        description:
          'Models, or connectors of a model, that are not used. A null connector_id means the whole model.',
      },
    ),
    not_known: Type.Array(Type.String(), {
      description: 'Facts that are not known here and may change the route of a request.',
    }),
  },
  { title: 'Explanation' },
);
export type Explanation = Static<typeof Explanation>;
