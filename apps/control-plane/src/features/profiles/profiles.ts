import {
  MAX_LIMIT_MICRO_USD,
  nanoFromMicro,
  parseModelId,
  type RoutingProfile,
  STRATEGIES,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { CacheSettings, DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

const Price = Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_LIMIT_MICRO_USD }));

/** A model as `<provider>/<model>`. The strategy `weighted` uses the weight; 1 by default. */
const Target = Strict({
  model: Type.String({ minLength: 1, maxLength: 300 }),
  weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
});
export type ProfileTarget = Static<typeof Target>;

/** What a target must fulfil to be chosen. Prices are in micro-USD per one million tokens. */
const Constraints = Strict({
  context_window: Type.Optional(Type.Integer({ minimum: 1 })),
  max_input_price_micro_usd: Price,
  max_output_price_micro_usd: Price,
  min_score: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  capabilities: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 50 }), { maxItems: 20 })),
});
export type ProfileConstraints = Static<typeof Constraints>;

const settings = {
  name: Type.String(),
  strategy: OneOf(STRATEGIES),
  targets: Type.Array(Target, { minItems: 1, maxItems: 50 }),
};

/** A routing profile. A request names it as the model `router/<name>`. */
export const Profile = Type.Object(
  {
    id: Type.String(),
    ...settings,
    constraints: Constraints,
    cache: Nullable(CacheSettings),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Profile' },
);
export type Profile = Static<typeof Profile>;
export type ProfileSettings = Omit<Profile, 'id' | 'created_at' | 'updated_at'>;

export const NewProfile = Strict(
  { ...settings, constraints: Type.Optional(Constraints), cache: Type.Optional(Nullable(CacheSettings)) },
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

/** Lower case only: the name is part of a model's name. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/;

/** Returns the name; throws a 422 if it breaks a rule. */
export function validProfileName(name: string): string {
  if (NAME.test(name)) return name;
  throw new AppError(
    'validation',
    'name_invalid',
    'A profile name has 1 to 100 lower-case letters, digits, ".", "_" and "-", and begins with a letter or digit, such as "cheap-chat".',
    { param: 'name' },
  );
}

/** Returns the targets; throws a 422 for a model id that can not be routed to. The model itself need not exist yet. */
export function validTargets(targets: readonly ProfileTarget[]): readonly ProfileTarget[] {
  const seen = new Set<string>();
  for (const [index, { model }] of targets.entries()) {
    const provider = parseModelId(model)?.provider;
    if (provider === undefined || provider === 'router') {
      throw targetInvalid(index, 'must be <provider>/<model>, and not a profile');
    }
    if (seen.has(model))
      throw targetInvalid(index, 'is already a target of this profile: name each model once');
    seen.add(model);
  }
  return targets;
}

function targetInvalid(index: number, fault: string): AppError {
  const param = `targets.${index}.model`;
  return new AppError('validation', 'target_invalid', `${param} ${fault}.`, { param });
}

/** The profile as the router uses it. */
export function routingProfile(id: string, settings: ProfileSettings): RoutingProfile {
  const { context_window, max_input_price_micro_usd, max_output_price_micro_usd, min_score, capabilities } =
    settings.constraints;
  return {
    id,
    name: settings.name,
    strategy: settings.strategy,
    targets: settings.targets.map(({ model, weight = 1 }) => ({ model, weight })),
    constraints: {
      contextWindow: context_window,
      maxInputNanoUsd: nanoOf(max_input_price_micro_usd),
      maxOutputNanoUsd: nanoOf(max_output_price_micro_usd),
      minScore: min_score,
      capabilities,
    },
    ...(settings.cache && {
      cache: { scope: settings.cache.scope, ttlMs: settings.cache.ttl_seconds * 1_000 },
    }),
  };
}

function nanoOf(micro: number | undefined): bigint | undefined {
  return micro === undefined ? undefined : nanoFromMicro(micro);
}
