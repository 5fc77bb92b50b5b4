import type { RoutableConnector } from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { ConnectorHealth } from '../upstream/health.ts';

/** Where a request goes next, and how long it waits before. */
export interface Next {
  readonly target: Target;
  readonly pauseMs: number;
}

export interface ChoiceDeps {
  readonly health: Pick<ConnectorHealth, 'isReady' | 'leastBad'>;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** The same target is waited for no longer than this: a caller that is told how long can wait better. */
const MAX_PAUSE_MS = 5_000;
const FIRST_BACK_OFF_MS = 100;

/**
 * Where one request may still go. First the targets that are ready and were not tried, then those that were, after a
 * pause, and where none is ready, the least bad of those that were not tried, then of all. Times are monotonic, in milliseconds.
 */
export class Choice {
  readonly #deps: ChoiceDeps;
  #left: readonly Target[];
  readonly #tries = new Map<Target, { times: number; notBeforeMs: number }>();

  /** `targets` in the order in which they are to be tried. */
  constructor(deps: ChoiceDeps, targets: readonly Target[]) {
    this.#deps = deps;
    this.#left = targets;
  }

  /** Undefined where nothing is left, or only what had to be waited for longer than `leftMs`. */
  next(nowMs: number, leftMs: number): Next | undefined {
    const { health } = this.#deps;
    if (this.#tries.size === 0 && leftMs > 0) {
      // What most requests do.
      for (const target of this.#left) if (health.isReady(target.connector)) return { target, pauseMs: 0 };
    }
    const left = this.#left;
    const times = (target: Target) => this.#tries.get(target)?.times ?? 0;
    const ready = left
      .filter(({ connector }) => health.isReady(connector))
      .sort((a, b) => times(a) - times(b));
    const others = left.filter((target) => !ready.includes(target));
    const untried = others.filter((target) => times(target) === 0);
    const last = this.#leastBad(untried.length > 0 ? untried : others);
    for (const target of last ? [...ready, last] : ready) {
      const pauseMs = this.#pauseMs(target, nowMs);
      if (pauseMs < Math.min(leftMs, MAX_PAUSE_MS)) return { target, pauseMs };
    }
    return undefined;
  }

  /** It failed, and asks to be left alone for so long. */
  failed(target: Target, nowMs: number, retryAfterMs = 0): void {
    const times = (this.#tries.get(target)?.times ?? 0) + 1;
    this.#tries.set(target, { times, notBeforeMs: nowMs + retryAfterMs });
  }

  /** No model of it is to be tried by this request any more. */
  exclude(connector: RoutableConnector): void {
    this.#left = this.#left.filter((target) => target.connector !== connector);
  }

  /** What costs nothing is all that may still be tried, besides this one. */
  keepFree(besides: Target): void {
    this.#left = this.#left.filter((target) => target.model.free && target !== besides);
  }

  #leastBad(targets: readonly Target[]): Target | undefined {
    const best = this.#deps.health.leastBad(targets.map(({ connector }) => connector));
    return targets.find(({ connector }) => connector === best);
  }

  #pauseMs(target: Target, nowMs: number): number {
    const tried = this.#tries.get(target);
    if (!tried) return 0;
    const backOffMs = FIRST_BACK_OFF_MS * 2 ** (tried.times - 1) * (0.5 + this.#deps.random() / 2);
    return Math.max(tried.notBeforeMs - nowMs, backOffMs);
  }
}
