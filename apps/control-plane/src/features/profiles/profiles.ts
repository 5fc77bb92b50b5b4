import { nanoFromMicro, parseModelId, type RoutingProfile, type Strategy } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { CacheSettings } from '../../shared/schemas.ts';

/** A routing profile: `router/<name>` names it where a model is asked for. */
export interface ProfileSettings {
  /** Lower case, digits, `.`, `_` and `-`: it is part of a model's name. */
  readonly name: string;
  readonly strategy: Strategy;
  readonly targets: ProfileTarget[];
  readonly constraints: ProfileConstraints;
  /** Turns the response cache on for requests that name the profile. */
  readonly cache: CacheSettings | null;
}

export interface ProfileTarget {
  /** `<provider>/<model>` */
  readonly model: string;
  /** For the strategy `weighted`; 1 where it is left out. */
  readonly weight?: number;
}

/** What a target must fulfil to be chosen. Prices are micro-USD per one million tokens. */
export interface ProfileConstraints {
  readonly context_window?: number;
  readonly max_input_price_micro_usd?: number;
  readonly max_output_price_micro_usd?: number;
  readonly min_score?: number;
  readonly capabilities?: string[];
}

export type NewProfile = Pick<ProfileSettings, 'name' | 'strategy' | 'targets'> & Partial<ProfileSettings>;
export type ProfileChanges = Partial<ProfileSettings>;

const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/;

export function requireProfileName(name: string): string {
  if (NAME.test(name)) return name;
  throw new AppError(
    'validation',
    'name_invalid',
    'A profile is named in lower case, digits, ".", "_" and "-", with at most 100 characters, such as "cheap-chat".',
    { param: 'name' },
  );
}

/** The targets as they are kept; a model that can't be one is a 422. Whether it can be reached changes from day to day. */
export function requireTargets(targets: readonly ProfileTarget[]): readonly ProfileTarget[] {
  const seen = new Set<string>();
  for (const [index, { model }] of targets.entries()) {
    const provider = parseModelId(model)?.provider;
    if (provider === undefined || provider === 'router') {
      throw targetInvalid(index, 'must be <provider>/<model>, and no profile');
    }
    if (seen.has(model)) throw targetInvalid(index, 'stands in this profile already: name each model once');
    seen.add(model);
  }
  return targets;
}

function targetInvalid(index: number, fault: string): AppError {
  const param = `targets.${index}.model`;
  return new AppError('validation', 'target_invalid', `${param} ${fault}.`, { param });
}

/** A profile as requests are routed by it. */
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
