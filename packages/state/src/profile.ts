import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Profile, type ProfileSchema, Strategy, Translation } from '@weighbridge/contracts';
import type { RoutingProfile } from '@weighbridge/domain';
import { cacheMessage, cacheSetting } from './cacheRule.ts';

const STRATEGIES: Readonly<Record<RoutingProfile['strategy'], Strategy>> = {
  ordered: Strategy.ORDERED,
  weighted: Strategy.WEIGHTED,
  cheapest: Strategy.CHEAPEST,
  fastest: Strategy.FASTEST,
  best_score: Strategy.BEST_SCORE,
  adaptive: Strategy.ADAPTIVE,
};
const STRATEGY_NAMES = new Map(
  Object.entries(STRATEGIES).map(([name, strategy]) => [strategy, name as RoutingProfile['strategy']]),
);

/** The profile as proxies get it. */
export function profileMessage(profile: RoutingProfile): MessageInitShape<typeof ProfileSchema> {
  const { id, name, strategy, targets, constraints, cache } = profile;
  const { pinsPromptCacheKeys, translatesStrictly, cachesPrompts } = profile;
  const { contextWindow, maxInputNanoUsd, maxOutputNanoUsd, minScore, capabilities } = constraints;
  return {
    id,
    name,
    strategy: STRATEGIES[strategy],
    targets: targets.map(({ model, weight }) => ({ model, weight })),
    constraints: {
      ...(contextWindow !== undefined && { contextWindow: BigInt(contextWindow) }),
      ...(maxInputNanoUsd !== undefined && { maxInputNanoUsd }),
      ...(maxOutputNanoUsd !== undefined && { maxOutputNanoUsd }),
      ...(minScore !== undefined && { minScore }),
      capabilities: [...(capabilities ?? [])],
    },
    ...(cache && { cache: cacheMessage(cache) }),
    ...(pinsPromptCacheKeys && { pinPromptCacheKeys: true }),
    ...(translatesStrictly && { translation: Translation.STRICT }),
    ...(cachesPrompts && { autoCache: true }),
  };
}

/** The inverse of `profileMessage`: the profile in the form that routing uses. */
export function routingProfile(profile: Profile): RoutingProfile {
  const { id, name, strategy, targets, constraints, cache, pinPromptCacheKeys, translation, autoCache } =
    profile;
  return {
    id,
    name,
    // One that only a newer control plane knows is the profile's order.
    strategy: STRATEGY_NAMES.get(strategy) ?? 'ordered',
    targets: targets.map(({ model, weight }) => ({ model, weight: weight || 1 })),
    constraints: {
      contextWindow: constraints?.contextWindow === undefined ? undefined : Number(constraints.contextWindow),
      maxInputNanoUsd: constraints?.maxInputNanoUsd,
      maxOutputNanoUsd: constraints?.maxOutputNanoUsd,
      minScore: constraints?.minScore,
      capabilities: constraints?.capabilities,
    },
    cache: cache && cacheSetting(cache),
    pinsPromptCacheKeys: pinPromptCacheKeys,
    translatesStrictly: translation === Translation.STRICT,
    cachesPrompts: autoCache,
  };
}
