import { type Profile, Strategy, Translation } from '@weighbridge/contracts';
import type { RoutingProfile } from '@weighbridge/domain';
import { cacheSetting } from './cacheRule.ts';

/** A strategy that only a newer control plane knows falls back to the profile's order. */
const STRATEGIES: Readonly<Record<Strategy, RoutingProfile['strategy']>> = {
  [Strategy.UNSPECIFIED]: 'ordered',
  [Strategy.ORDERED]: 'ordered',
  [Strategy.WEIGHTED]: 'weighted',
  [Strategy.CHEAPEST]: 'cheapest',
  [Strategy.FASTEST]: 'fastest',
  [Strategy.BEST_SCORE]: 'best_score',
  [Strategy.ADAPTIVE]: 'adaptive',
};

/** The profile in the form that routing uses. */
export function routingProfile(profile: Profile): RoutingProfile {
  const { id, name, strategy, targets, constraints, cache, pinPromptCacheKeys, translation } = profile;
  return {
    id,
    name,
    strategy: STRATEGIES[strategy] ?? 'ordered',
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
  };
}
