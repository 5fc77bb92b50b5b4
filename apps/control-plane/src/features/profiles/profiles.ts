import { nanoFromMicro, parseModelId, type RoutingProfile } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { ProfileSettings, ProfileTarget } from './profiles.schemas.ts';

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

/** Returns the targets; throws a 422 for a model id that cannot be routed to. The model itself need not exist yet. */
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
    pinsPromptCacheKeys: settings.pin_prompt_cache_keys,
    translatesStrictly: settings.translation === 'strict',
    cachesPrompts: settings.auto_cache,
    ...(settings.cache && {
      cache: { scope: settings.cache.scope, ttlMs: settings.cache.ttl_seconds * 1_000 },
    }),
  };
}

function nanoOf(micro: number | undefined): bigint | undefined {
  return micro === undefined ? undefined : nanoFromMicro(micro);
}
