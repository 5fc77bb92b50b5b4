import { MAX_LIMIT_MICRO_USD, STRATEGIES } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import {
  AutoCache,
  CacheSettings,
  DateTime,
  Nullable,
  OneOf,
  Strict,
  TranslationRule,
} from '../../shared/schemas.ts';

const Price = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD, description }));

/** A model as `<provider>/<model>`. The strategy `weighted` uses the weight; 1 by default. */
const Target = Strict(
  {
    model: Type.String({ minLength: 1, maxLength: 300 }),
    weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
  },
  { title: 'ProfileTarget' },
);
export type ProfileTarget = Static<typeof Target>;

/** What a target must fulfil to be chosen. Prices are in micro-USD per one million tokens. */
const Constraints = Strict(
  {
    context_window: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Only models with at least this window, in tokens.' }),
    ),
    max_input_price_micro_usd: Price('Only models that cost at most this, per million input tokens.'),
    max_output_price_micro_usd: Price('Only models that cost at most this, per million output tokens.'),
    min_score: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 100,
        description: 'Only models with at least this published score.',
      }),
    ),
    capabilities: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 50 }), {
        maxItems: 20,
        description: 'Only models with this capability.',
      }),
    ),
  },
  { title: 'ProfileConstraints' },
);
export type ProfileConstraints = Static<typeof Constraints>;

/** How a profile chooses among its targets. */
export const Strategy = OneOf(STRATEGIES, {
  title: 'Strategy',
  description: 'How it chooses among its models.',
});
const PinPromptCacheKeys = Type.Boolean({
  description:
    'Without X-Svc-Session-Id, requests with the same prompt_cache_key are one session, which is pinned. Default: false.',
});

const settings = {
  name: Type.String(),
  strategy: Strategy,
  targets: Type.Array(Target, { minItems: 1, maxItems: 50 }),
};

/** A routing profile. A request names it as the model `router/<name>`. */
export const Profile = Type.Object(
  {
    id: Type.String(),
    ...settings,
    constraints: Constraints,
    cache: Nullable(CacheSettings),
    pin_prompt_cache_keys: PinPromptCacheKeys,
    translation: TranslationRule,
    auto_cache: AutoCache,
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Profile' },
);
export type Profile = Static<typeof Profile>;
export type ProfileSettings = Omit<Profile, 'id' | 'created_at' | 'updated_at'>;

export const NewProfile = Strict(
  {
    ...settings,
    constraints: Type.Optional(Constraints),
    cache: Type.Optional(Nullable(CacheSettings)),
    pin_prompt_cache_keys: Type.Optional(PinPromptCacheKeys),
    translation: Type.Optional(TranslationRule),
    auto_cache: Type.Optional(AutoCache),
  },
  { title: 'NewProfile' },
);
export type NewProfile = Static<typeof NewProfile>;

export const ProfileChanges = Strict(Type.Partial(NewProfile).properties, { title: 'ProfileChanges' });
export type ProfileChanges = Static<typeof ProfileChanges>;

export const ProfileQuery = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
});
export type ProfileQuery = Static<typeof ProfileQuery>;
