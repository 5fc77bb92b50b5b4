import type { NanoUsd } from '../money.ts';
import type { CacheSetting } from './cacheSetting.ts';

export const STRATEGIES = ['ordered', 'weighted', 'cheapest', 'fastest', 'best_score', 'adaptive'] as const;

export type Strategy = (typeof STRATEGIES)[number];

/** What `router/<name>` stands for: models, and in which order a request tries them. */
export interface RoutingProfile {
  readonly id: string;
  readonly name: string;
  readonly strategy: Strategy;
  readonly targets: readonly RoutingTarget[];
  readonly constraints: RoutingConstraints;
  /** Undefined where it says nothing of it. */
  readonly cache?: CacheSetting | undefined;
}

export interface RoutingTarget {
  /** `<provider>/<model>` */
  readonly model: string;
  /** Its share of the requests under `weighted`. */
  readonly weight: number;
}

/** What a model must fulfil to be chosen; undefined where nothing is asked. */
export interface RoutingConstraints {
  /** In tokens, at least. */
  readonly contextWindow?: number | undefined;
  /** Per one million tokens, at most; the price of the first tier. */
  readonly maxInputNanoUsd?: NanoUsd | undefined;
  readonly maxOutputNanoUsd?: NanoUsd | undefined;
  /** Of 100, at least. A model without a published score has none that would do. */
  readonly minScore?: number | undefined;
  /** All of them. */
  readonly capabilities?: readonly string[] | undefined;
}

/** What is asked for as a model, where a profile is meant. */
export const ROUTER_PREFIX = 'router/';

/** The profile of the nearest policy that names one; where none does, a profile of this very name. */
export const DEFAULT_PROFILE = 'default';

/** The name of the profile that is asked for; undefined where a model is. */
export function profileNameOf(model: string): string | undefined {
  return model.startsWith(ROUTER_PREFIX) && model !== ROUTER_PREFIX
    ? model.slice(ROUTER_PREFIX.length)
    : undefined;
}
