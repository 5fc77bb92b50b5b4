import { type Profile, Strategy } from '@weighbridge/contracts';
import type { RoutingProfile } from '@weighbridge/domain';
import { cacheSetting } from './cacheRule.ts';

/** One that a newer control plane may know and this proxy does not, is followed in the profile's own order. */
const STRATEGIES: Readonly<Record<Strategy, RoutingProfile['strategy']>> = {
  [Strategy.UNSPECIFIED]: 'ordered',
  [Strategy.ORDERED]: 'ordered',
  [Strategy.WEIGHTED]: 'weighted',
  [Strategy.CHEAPEST]: 'cheapest',
  [Strategy.FASTEST]: 'fastest',
  [Strategy.BEST_SCORE]: 'best_score',
  [Strategy.ADAPTIVE]: 'adaptive',
};

/** A profile as the control plane sends it, made ready to be followed. */
export function routingProfile(profile: Profile): RoutingProfile {
  const { id, name, strategy, targets, constraints, cache } = profile;
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
  };
}
