import { STAGES } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd, Nullable, OneOf, Strict, TextByName } from '../../shared/schemas.ts';
import { Money, PriceSource } from '../catalog/prices.schemas.ts';
import { Enforcement } from '../policies/policies.schemas.ts';
import { Strategy } from '../profiles/profiles.schemas.ts';

const ROUTES = [
  'chat_completions',
  'responses',
  'messages',
  'embeddings',
  'generate_content',
  'embed_content',
  'completions',
] as const;
const Route = OneOf(ROUTES, { title: 'Route' });
/** No client asks for the last one. */
const VendorRoute = OneOf([...ROUTES, 'converse'], { title: 'VendorRoute' });

const Said = Type.Optional(Type.String({ maxLength: 1_000 }));
const requestFields = {
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
  session_id: Type.Optional(Type.String({ maxLength: 1_000, description: 'The value of X-Svc-Session-Id.' })),
  attribution: Type.Optional(
    Strict(
      {
        user: Said,
        team: Said,
        project: Said,
        env: Said,
        namespace: Said,
        workload: Said,
        labels: Type.Optional(
          TextByName({ maxLength: 1_000 }, { title: 'ExplainedLabels', maxProperties: 32 }),
        ),
      },
      {
        title: 'ExplainedAttribution',
        description: 'What else the request says of whom it is for: which limits count it depends on that.',
      },
    ),
  ),
};
/** The facts of a request that its routing depends on. */
export const ExplainRequest = Strict(requestFields, { title: 'ExplainRequest' });
export type ExplainRequest = Static<typeof ExplainRequest>;

export const ExplainNameRequest = Strict(
  {
    model: Type.String({
      minLength: 1,
      maxLength: 1_000,
      description:
        'Any name that a request may have as its model: an alias, a bare or dated name, `<provider>/<model>`, `router/<profile>`.',
    }),
    ...requestFields,
  },
  { title: 'ExplainNameRequest' },
);
export type ExplainNameRequest = Static<typeof ExplainNameRequest>;

const ExplainedConnector = Type.Object(
  {
    connector_id: Type.String(),
    name: Type.String(),
    priority: Type.Integer(),
    weight: Type.Integer(),
    input_price: Money,
    output_price: Money,
    /** The route to which the request is translated for it; null: it takes the request as it is. */
    translated_to: Nullable(VendorRoute),
    price_source: PriceSource,
  },
  { title: 'ExplainedConnector' },
);

const figures = {
  spent_micro_usd: Nullable(Type.Integer({ description: 'In this window. Null: not known without a key.' })),
  headroom_micro_usd: Nullable(Type.Integer({ description: 'What is left. Null: unlimited, or not known.' })),
  reset: Nullable(DateTime),
};

/** The limit of a policy itself. */
export const ExplainedBudget = Type.Object(
  {
    policy_id: Type.String(),
    counter_scope: Type.String(),
    enforcement: Enforcement,
    limit_micro_usd: Nullable(MicroUsd),
    ...figures,
  },
  { title: 'ExplainedBudget' },
);
export type ExplainedBudget = Static<typeof ExplainedBudget>;

/** Of one amount of a limit: the figures of other units are null. */
const CountLeft = Nullable(Type.Integer({ minimum: 0 }));
/** Of the rates of a limit: they have no other figures. */
const Rate = Nullable(Type.Integer({ minimum: 1 }));
/** One amount of a further limit, or its rates: each is a counter of its own. */
export const ExplainedLimit = Type.Object(
  {
    policy_id: Type.String(),
    limit_id: Type.String(),
    name: Type.String(),
    counter_scope: Type.String(),
    when: Type.Unsafe<Record<string, string>>({
      title: 'ExplainedLimitWhen',
      type: 'object',
      maxProperties: 20,
      additionalProperties: { type: 'string' },
      description: 'Attribution that a request must have to count.',
    }),
    enforcement: Enforcement,
    effect: OneOf(['counts', 'refuses', 'none'], {
      title: 'LimitEffect',
      description:
        'counts: the request reserves from it. refuses: the request lacks the attribution that it needs (400 `attribution_required`). none: the request has other attribution, or none, than it counts.',
    }),
    value: Nullable(Type.String({ description: 'Whose counter it is, if it is of a value of attribution.' })),
    limit_micro_usd: Nullable(MicroUsd),
    limit_requests: CountLeft,
    headroom_requests: CountLeft,
    limit_tokens: CountLeft,
    headroom_tokens: CountLeft,
    requests_per_minute: Rate,
    tokens_per_minute: Rate,
    max_parallel: Rate,
    ...figures,
  },
  { title: 'ExplainedLimit' },
);
export type ExplainedLimit = Static<typeof ExplainedLimit>;

/** The values of `resolved_name.by`, in the order in which the rules are tried. */
const NameRule = OneOf(['id', 'alias', 'name', 'other_name'], {
  title: 'NameRule',
  description:
    'The rule by which a name stands for its target, in the order in which they are tried. id: it is <provider>/<model>, or router/<profile>. alias: an alias of an operator. name: a bare name of the catalog. other_name: another name that its provider or a cloud gives it.',
});

export const Explanation = Type.Object(
  {
    profile_id: Nullable(Type.String({ description: 'Null: the name stands for a model.' })),
    model: Type.String({
      description: 'What the name stands for: `<provider>/<model>` or `router/<profile>`.',
    }),
    resolved_name: Type.Object(
      {
        name: Type.String({ description: 'The name that was asked for.' }),
        by: NameRule,
        alias_id: Nullable(Type.String({ description: 'The alias that matched.' })),
        sent_name: Nullable(
          Type.String({
            description:
              'The name that vendors get, if it is another one than their own of the model: a dated release stays that release.',
          }),
        ),
      },
      { title: 'ExplainedName' },
    ),
    strategy: Nullable(Strategy),
    route: Route,
    policies: Type.Array(Type.String()),
    budgets: Type.Array(ExplainedBudget, { description: 'The limits of these policies themselves.' }),
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
        {
          model: Type.String(),
          why: Type.String(),
          connectors: Type.Array(ExplainedConnector),
          limits: Type.Array(ExplainedLimit, {
            description: 'The further limits of the policies that count attempts on the model.',
          }),
        },
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
