import type { NanoUsd } from '../money.ts';
import type { CacheSetting } from './cacheSetting.ts';

export const STRATEGIES = ['ordered', 'weighted', 'cheapest', 'fastest', 'best_score', 'adaptive'] as const;

export type Strategy = (typeof STRATEGIES)[number];

/** The models behind `router/<name>`, and the strategy that orders them. */
export interface RoutingProfile {
  readonly id: string;
  readonly name: string;
  readonly strategy: Strategy;
  readonly targets: readonly RoutingTarget[];
  readonly constraints: RoutingConstraints;
  /** Undefined if the profile does not set it. */
  readonly cache?: CacheSetting | undefined;
  /** Requests with the same `prompt_cache_key`, and no session id, are one session. */
  readonly pinsPromptCacheKeys?: boolean | undefined;
  /** A request whose translation would change or drop something is refused. */
  readonly translatesStrictly?: boolean | undefined;
  /** Translated requests ask the vendor to cache their prompts. */
  readonly cachesPrompts?: boolean | undefined;
}

export interface RoutingTarget {
  /** `<provider>/<model>` */
  readonly model: string;
  /** Its share of the requests under `weighted`. */
  readonly weight: number;
}

/** Requirements of a model. Undefined: no requirement. */
export interface RoutingConstraints {
  /** Minimum, in tokens. */
  readonly contextWindow?: number | undefined;
  /** Maximum price per one million tokens, in the first tier. */
  readonly maxInputNanoUsd?: NanoUsd | undefined;
  readonly maxOutputNanoUsd?: NanoUsd | undefined;
  /** Minimum, of 100. A model without a published score does not meet it. */
  readonly minScore?: number | undefined;
  /** All are required. */
  readonly capabilities?: readonly string[] | undefined;
}

/** A request names a profile as the model `router/<name>`. */
export const ROUTER_PREFIX = 'router/';

/** `router/default` is the profile of the nearest policy that has one, else the profile named `default`. */
export const DEFAULT_PROFILE = 'default';

/** Undefined if the request names a model. */
export function profileNameOf(model: string): string | undefined {
  return model.startsWith(ROUTER_PREFIX) && model !== ROUTER_PREFIX
    ? model.slice(ROUTER_PREFIX.length)
    : undefined;
}
