import { MAX_LIMIT_MICRO_USD, WINDOW_KINDS } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import {
  AutoCache,
  CacheSettings,
  DateTime,
  Nullable,
  OneOf,
  QueryBoolean,
  Strict,
  TranslationRule,
} from '../../shared/schemas.ts';

const MAX_PER_MINUTE = 2_147_483_647;
const Rate = (description: string) =>
  Nullable(Type.Integer({ minimum: 1, maximum: MAX_PER_MINUTE, description }));
/** Who shares a counter. */
export const CounterScope = OneOf(['key', 'principal', 'policy'], {
  title: 'CounterScope',
  description: 'What has a counter: each key, each principal, or the whole policy.',
});
const DefaultFor = OneOf(['service', 'user', 'all'], {
  title: 'DefaultFor',
  description: 'The kind of keys without another policy that it governs.',
});

/** Names of fields, each with `[]` for each level of a list, and a value after `=`. */
const FIELD_PATTERN =
  '^[A-Za-z_][A-Za-z0-9_-]*(\\[\\])*(\\.[A-Za-z_][A-Za-z0-9_-]*(\\[\\])*)*(=[A-Za-z0-9_.:/-]+)?$';

/** Where requests go once the budget of the policy that governs them is used up. */
const OnExhausted = Strict(
  {
    profile_id: Type.String({ description: 'Requests go by this profile, whatever model they name.' }),
    policy_id: Type.String({ description: 'This policy governs them.' }),
  },
  {
    title: 'OnExhausted',
    description:
      'What happens to the requests that this policy governs and that its budget can no longer pay: they go by another profile, and another policy governs them. What binds them beside this policy, such as its parents, still does. Null: they are refused.',
  },
);
export type OnExhausted = Static<typeof OnExhausted>;

const name = Type.String();
const settingsWithDefaults = {
  limit_micro_usd: Nullable(
    Type.Integer({
      minimum: 0,
      maximum: MAX_LIMIT_MICRO_USD,
      description: 'The limit of each window, in micro-USD. Null: unlimited.',
    }),
  ),
  window: OneOf(WINDOW_KINDS, {
    title: 'Window',
    description: 'The window after which spend starts again.',
  }),
  timezone: Type.String({
    maxLength: 100,
    description: 'The time zone of the windows, such as Europe/Vienna.',
  }),
  counter_scope: CounterScope,
  enforcement: OneOf(['enforce', 'shadow', 'off'], {
    title: 'Enforcement',
    description: 'At a limit: `enforce` refuses, `shadow` only counts, `off` does nothing.',
  }),
  budget_mode: OneOf(['balanced', 'hard'], {
    title: 'BudgetMode',
    description: '`balanced` reserves an estimate, `hard` the most that a request can cost.',
  }),
  hard_allow_fields: Type.Array(Type.String({ pattern: FIELD_PATTERN, maxLength: 300 }), {
    maxItems: 100,
    description:
      'Fields of requests that hard budgets let pass although nothing bounds their cost, as the refusal names them: `messages[].content[].type`, or `messages[].content[].type=image_url` for one value. A field includes all that is in it.',
  }),
  allowed_models: Type.Array(Type.String({ minLength: 1, maxLength: 300 }), {
    maxItems: 500,
    description: 'Anchored patterns; `*` matches any characters. Empty: all models.',
  }),
  foreign_objects: OneOf(['any', 'own'], {
    title: 'ForeignObjects',
    description:
      'Whether requests may use vendor-stored objects (responses, conversations, files) that were not created here: `any`, or `own`, which makes them 404. The objects of other principals are always 404. Of a policy and its parents, the strictest holds.',
  }),
  translation: TranslationRule,
  auto_cache: AutoCache,
  requests_per_minute: Rate('The limit of requests per minute.'),
  tokens_per_minute: Rate('The limit of tokens per minute.'),
  max_parallel: Rate('The limit of requests at the same time.'),
  parent_policy_id: Nullable(Type.String({ description: 'The parent policy, whose budget applies too.' })),
  default_for: Nullable(DefaultFor),
  self_service: Type.Boolean({ description: 'Callers may choose it for their own keys.' }),
  profile_id: Nullable(Type.String({ description: 'The routing profile that router/default names.' })),
  on_exhausted: Nullable(OnExhausted),
  cache: Nullable(CacheSettings),
  thresholds: Type.Array(Type.Integer({ minimum: 1, maximum: 100 }), {
    maxItems: 20,
    description: 'In percent of the limit.',
  }),
};
const PolicySettings = Type.Object({ name, ...settingsWithDefaults });
/** Everything about a policy that an operator sets. */
export type PolicySettings = Static<typeof PolicySettings>;

export const Policy = Type.Object(
  { id: Type.String(), ...PolicySettings.properties, created_at: DateTime, updated_at: DateTime },
  { title: 'Policy' },
);
export type Policy = Static<typeof Policy>;

export const NewPolicy = Strict(
  { name, ...Type.Partial(Type.Object(settingsWithDefaults)).properties },
  { title: 'NewPolicy' },
);
export type NewPolicy = Static<typeof NewPolicy>;

export const PolicyChanges = Strict(Type.Partial(PolicySettings).properties, { title: 'PolicyChanges' });
export type PolicyChanges = Static<typeof PolicyChanges>;

export const PolicyQuery = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  default_for: Type.Optional({
    ...DefaultFor,
    description: 'Only the policy that is the default for this kind of key.',
  }),
  parent_policy_id: Type.Optional(Type.String()),
  self_service: Type.Optional(QueryBoolean('Whether callers may choose it for their keys.')),
});
export type PolicyQuery = Static<typeof PolicyQuery>;
