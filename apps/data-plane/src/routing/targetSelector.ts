import type { RoutableConnector } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import type { ConnectorHealth } from '../upstream/connectorHealth.ts';

/** Where a request goes next, and how long it waits before. */
export interface NextTarget {
  readonly target: Target;
  readonly pauseMs: number;
}

export interface TargetSelectorDeps {
  readonly health: Pick<ConnectorHealth, 'isReady' | 'leastUnhealthy'>;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** A longer pause is left to the client, which gets the vendor's `retry-after`. */
const MAX_PAUSE_MS = 5_000;
const FIRST_BACK_OFF_MS = 100;

/**
 * Selects the targets of one request, in this order: ready and untried; ready and tried, after a pause; the least
 * unhealthy of the others, untried before tried. Among these, a provider that has not failed this request comes first:
 * attempts are few, and the accounts of one provider tend to fail together. Times are monotonic, in milliseconds.
 */
export class TargetSelector {
  readonly #deps: TargetSelectorDeps;
  #candidates: readonly Target[];
  /** What follows is made with the first failure: most requests have none. */
  #failures: Map<Target, { count: number; notBeforeMs: number }> | undefined;
  #failedProviders: Map<string, number> | undefined;

  /** `targets`: in order of preference. */
  constructor(deps: TargetSelectorDeps, targets: readonly Target[]) {
    this.#deps = deps;
    this.#candidates = targets;
  }

  /** Undefined if no candidate is left, or none that can be tried within `leftMs`. */
  next(nowMs: number, leftMs: number): NextTarget | undefined {
    const { health } = this.#deps;
    if (!this.#failures && leftMs > 0) {
      // The common case, without allocating.
      for (const target of this.#candidates) {
        if (health.isReady(target.connector)) return { target, pauseMs: 0 };
      }
    }
    const candidates = this.#candidates;
    const failures = (target: Target) => this.#failures?.get(target)?.count ?? 0;
    const ofProvider = ({ connector }: Target) => this.#failedProviders?.get(connector.provider) ?? 0;
    const ready = candidates
      .filter(({ connector }) => health.isReady(connector))
      .sort((a, b) => failures(a) - failures(b) || ofProvider(a) - ofProvider(b));
    const others = candidates.filter((target) => !ready.includes(target));
    const untried = others.filter((target) => failures(target) === 0);
    const elsewhere = untried.filter((target) => ofProvider(target) === 0);
    const last = this.#leastUnhealthy([elsewhere, untried, others].find(({ length }) => length > 0) ?? []);
    for (const target of last ? [...ready, last] : ready) {
      const pauseMs = this.#pauseMs(target, nowMs);
      if (pauseMs < Math.min(leftMs, MAX_PAUSE_MS)) return { target, pauseMs };
    }
    return undefined;
  }

  /** `retryAfterMs`: how long the vendor asks to wait before the next try. */
  recordFailure(target: Target, nowMs: number, retryAfterMs = 0): void {
    this.#failures ??= new Map();
    const count = (this.#failures.get(target)?.count ?? 0) + 1;
    this.#failures.set(target, { count, notBeforeMs: nowMs + retryAfterMs });
  }

  /** What failed is likely to fail at the provider's other accounts too. */
  recordProviderFailure({ connector: { provider } }: Target): void {
    this.#failedProviders ??= new Map();
    this.#failedProviders.set(provider, (this.#failedProviders.get(provider) ?? 0) + 1);
  }

  /** Removes all targets of a connector. */
  exclude(connector: RoutableConnector): void {
    this.#candidates = this.#candidates.filter((target) => target.connector !== connector);
  }

  excludeTarget(target: Target): void {
    this.#candidates = this.#candidates.filter((candidate) => candidate !== target);
  }

  /** Removes all targets of these models. */
  excludeModels(isExcluded: (modelId: string) => boolean): void {
    this.#candidates = this.#candidates.filter(({ model }) => !isExcluded(model.id));
  }

  /** The targets for which a failure was recorded. */
  get failed(): Iterable<Target> {
    return this.#failures?.keys() ?? [];
  }

  /** Removes `failed`, and all targets that cost something. */
  restrictToFree(failed: Target): void {
    this.#candidates = this.#candidates.filter((target) => target.model.free && target !== failed);
  }

  #leastUnhealthy(targets: readonly Target[]): Target | undefined {
    const best = this.#deps.health.leastUnhealthy(targets.map(({ connector }) => connector));
    return targets.find(({ connector }) => connector === best);
  }

  #pauseMs(target: Target, nowMs: number): number {
    const failed = this.#failures?.get(target);
    if (!failed) return 0;
    const backOffMs = FIRST_BACK_OFF_MS * 2 ** (failed.count - 1) * (0.5 + this.#deps.random() / 2);
    return Math.max(failed.notBeforeMs - nowMs, backOffMs);
  }
}
