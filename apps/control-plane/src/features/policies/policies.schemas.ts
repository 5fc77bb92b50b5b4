import { MAX_PRIORITY } from '@weighbridge/budget';
import { MAX_LIMIT_MICRO_USD, WINDOW_KINDS } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import {
  AutoCache,
  CacheSettings,
  DateTime,
  MAX_PER_MINUTE,
  Nullable,
  OneOf,
  QueryBoolean,
  Strict,
  TextByName,
  TranslationRule,
} from '../../shared/schemas.ts';

/** A request that waits holds its connection and its body. */
const MAX_QUEUE_MS = 300_000;
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

const Thresholds = Type.Array(Type.Integer({ minimum: 1, maximum: 100 }), {
  maxItems: 20,
  description: 'In percent of the limit.',
});
export const Enforcement = OneOf(['enforce', 'shadow', 'off'], {
  title: 'Enforcement',
  description: 'At a limit: `enforce` refuses, `shadow` only counts, `off` does nothing.',
});
const WindowKind = OneOf(WINDOW_KINDS, {
  title: 'Window',
  description: 'The window after which spend starts again.',
});
type WindowKind = Static<typeof WindowKind>;
const Timezone = Type.String({
  maxLength: 100,
  description: 'The time zone of the windows, such as Europe/Vienna.',
});
const ModelPatterns = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 300 }), { maxItems: 500, description });
const Amount = (description: string) =>
  Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD, description });

const MAX_ATTRIBUTION_HEADERS = 20;
const MAX_COUNT = 1_000_000_000_000_000;
const Count = (description: string) => Type.Integer({ minimum: 0, maximum: MAX_COUNT, description });

const FirstUseWindow = Strict(
  {
    every: Type.String({
      pattern: '^[1-9][0-9]{0,3}[hd]$',
      maxLength: 5,
      description: 'The length of a window, from `1h` to `90d`.',
    }),
    from: OneOf(['first_use'], {
      title: 'WindowStart',
      description:
        'A window opens with the first attempt that is sent after the last one ended. A refused one opens none.',
    }),
  },
  { title: 'FirstUseWindow' },
);
type FirstUseWindow = Static<typeof FirstUseWindow>;

/** In a policy. Each amount of a matching one is a counter more that a request reserves from. */
export const MAX_LIMITS = 50;
const MAX_COUNTERS = 10_000_000;
/** A further limit of a policy. */
export const PolicyLimit = Strict(
  {
    id: Type.Optional(
      Type.String({ description: 'Made by the service. To rename a limit, send it with its new name.' }),
    ),
    name: Type.String({ description: 'Unique in the policy. Errors and events have it.' }),
    models: Type.Optional(
      ModelPatterns(
        'Anchored patterns of the models that it counts; `*` matches any characters. Empty: all models.',
      ),
    ),
    when: Type.Optional(
      TextByName(
        { minLength: 1, maxLength: 256 },
        {
          title: 'LimitWhen',
          maxProperties: 20,
          description:
            'Attribution that a request must have to count: `user`, `team`, `project`, `env`, `workload_type`, `namespace` or `labels.<name>`, each with its value. Empty: any.',
        },
      ),
    ),
    counter_scope: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'What has a counter: each `key`, each `principal`, the whole `policy`, or each value of attribution: `user`, `team`, `project`, `env`, `session`, `workload`, `namespace`, `label:<name>`. By default `principal`.',
      }),
    ),
    unknown: Type.Optional(
      OneOf(['share', 'refuse', 'skip'], {
        title: 'UnknownAttribution',
        description:
          'What becomes of a request without the attribution that the counters are by: all such requests `share` a counter, or it is refused (400 `attribution_required`), or it does not count (`skip`). By default `share`.',
      }),
    ),
    limit_micro_usd: Type.Optional(
      Nullable(
        Amount(
          'The limit of each counter and window, in micro-USD. A limit needs at least one of the amounts (this one, `limit_requests`, `limit_tokens`) or of the rates. Each amount is a counter of its own.',
        ),
      ),
    ),
    limit_requests: Type.Optional(
      Nullable(
        Count(
          'How many requests each counter lets pass in a window. An attempt that fails at the vendor does not count.',
        ),
      ),
    ),
    limit_tokens: Type.Optional(
      Nullable(
        Count(
          'How many tokens each counter lets pass in a window: those of input and of output, as the vendor reports them.',
        ),
      ),
    ),
    requests_per_minute: Type.Optional(
      Rate('How many requests per minute each counter lets pass. Each attempt counts that is sent.'),
    ),
    tokens_per_minute: Type.Optional(Rate('How many tokens per minute each counter lets pass.')),
    max_parallel: Type.Optional(Rate('How many requests at the same time each counter lets pass.')),
    window: Type.Optional(
      Type.Unsafe<WindowKind | FirstUseWindow>({
        title: 'LimitWindow',
        anyOf: [WindowKind, FirstUseWindow],
        description: 'As of the policy, or a length of time from the first use. By default `month`.',
      }),
    ),
    timezone: Type.Optional({ ...Timezone, description: 'As of the policy. By default UTC.' }),
    enforcement: Type.Optional({
      ...Enforcement,
      description: 'As of the policy. By default `enforce`. `shadow` takes no counters by attribution.',
    }),
    thresholds: Type.Optional(Thresholds),
    max_counters: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_COUNTERS,
        description:
          'Of counters by attribution: how many one key may open in a window; of rates, in a minute at each proxy, and at most 10,000. Requests with further values share a counter, `others`. By default 100,000.',
      }),
    ),
    others_limit_micro_usd: Type.Optional(
      Nullable(Amount('The limit of the counter `others`, in micro-USD. Null: that of any other counter.')),
    ),
  },
  { title: 'PolicyLimit' },
);
export type PolicyLimit = Static<typeof PolicyLimit>;

const name = Type.String();
const settingsWithDefaults = {
  limit_micro_usd: Nullable(
    Type.Integer({
      minimum: 0,
      maximum: MAX_LIMIT_MICRO_USD,
      description: 'The limit of each window, in micro-USD. Null: unlimited.',
    }),
  ),
  window: WindowKind,
  timezone: Timezone,
  counter_scope: CounterScope,
  enforcement: Enforcement,
  budget_mode: OneOf(['balanced', 'hard'], {
    title: 'BudgetMode',
    description: '`balanced` reserves an estimate, `hard` the most that a request can cost.',
  }),
  hard_allow_fields: Type.Array(Type.String({ pattern: FIELD_PATTERN, maxLength: 300 }), {
    maxItems: 100,
    description:
      'Fields of requests that hard budgets let pass although nothing bounds their cost, as the refusal names them: `messages[].content[].type`, or `messages[].content[].type=image_url` for one value. A field includes all that is in it.',
  }),
  allowed_models: ModelPatterns('Anchored patterns; `*` matches any characters. Empty: all models.'),
  foreign_objects: OneOf(['any', 'own'], {
    title: 'ForeignObjects',
    description:
      'Whether requests may use vendor-stored objects (responses, conversations, files) that were not created here: `any`, or `own`, which makes them 404. The objects of other principals are always 404. Of a policy and its parents, the strictest holds.',
  }),
  translation: TranslationRule,
  auto_cache: AutoCache,
  queue_ms: Type.Integer({
    minimum: 0,
    maximum: MAX_QUEUE_MS,
    description:
      'How long a request waits, in milliseconds, if no account that could serve it has anything left of its limits. 0: it is refused at once, with 429 account_limit_exceeded.',
  }),
  priority: Type.Integer({
    minimum: 0,
    maximum: MAX_PRIORITY,
    description: 'The order of requests that wait for an account: a higher priority goes first.',
  }),
  attribution_headers: TextByName(
    { minLength: 1, maxLength: 100 },
    {
      title: 'AttributionHeaders',
      maxProperties: MAX_ATTRIBUTION_HEADERS,
      description:
        'Headers in which requests say whom they are for, each with what it says: `user`, `team`, `project`, `env`, `session`, `namespace`, `workload` or `labels.<name>`. `X-Svc-*` headers, and what the key locks, come first. Of a policy and its parents, the nearest one that has any counts.',
    },
  ),
  user_from_body: Type.Boolean({
    description:
      'Whether a request without another user has the one that its body names in `safety_identifier`, `user` or `metadata.user_id`. It is enough if a parent says so.',
  }),
  requests_per_minute: Rate('The limit of requests per minute.'),
  tokens_per_minute: Rate('The limit of tokens per minute.'),
  max_parallel: Rate('The limit of requests at the same time.'),
  parent_policy_id: Nullable(Type.String({ description: 'The parent policy, whose budget applies too.' })),
  default_for: Nullable(DefaultFor),
  self_service: Type.Boolean({ description: 'Callers may choose it for their own keys.' }),
  profile_id: Nullable(Type.String({ description: 'The routing profile that router/default names.' })),
  on_exhausted: Nullable(OnExhausted),
  cache: Nullable(CacheSettings),
  thresholds: Thresholds,
  limits: Type.Array(PolicyLimit, {
    maxItems: MAX_LIMITS,
    description:
      'Further limits beside the one of the policy itself. A request counts in each that matches it, and passes if none is used up. A list replaces all; a limit with the `id` or the name of one stays that one.',
  }),
};
const PolicySettings = Type.Object({ name, ...settingsWithDefaults });
/** Everything about a policy that an operator sets. */
export type PolicySettings = Static<typeof PolicySettings>;

export const Policy = Type.Object(
  {
    id: Type.String(),
    ...PolicySettings.properties,
    created_at: DateTime,
    updated_at: DateTime,
    warnings: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'Only in answers to a change: what about it may not be meant, such as a limit for models that do not exist.',
      }),
    ),
  },
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
