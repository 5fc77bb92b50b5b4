import type { RoutableConnector } from '../control/routingTable.ts';
import type { ConnectorHealth } from '../upstream/health.ts';

/** Where a request goes next, and how long it waits before. */
export interface Next {
  readonly connector: RoutableConnector;
  readonly pauseMs: number;
}

export interface ChoiceDeps {
  readonly health: Pick<ConnectorHealth, 'isReady' | 'leastBad'>;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** The same connector is waited for no longer than this: a caller that is told how long can wait better. */
const MAX_PAUSE_MS = 5_000;
const FIRST_BACK_OFF_MS = 100;

/**
 * Where one request may still go. First the connectors that are ready and were not tried, then those that were, after a
 * pause, and where none is ready, the least bad of those that were not tried, then of all. Times are monotonic, in milliseconds.
 */
export class Choice {
  readonly #deps: ChoiceDeps;
  readonly #left: Set<RoutableConnector>;
  readonly #tries = new Map<RoutableConnector, { times: number; notBeforeMs: number }>();

  /** `connectors` in the order in which they are to be tried. */
  constructor(deps: ChoiceDeps, connectors: readonly RoutableConnector[]) {
    this.#deps = deps;
    this.#left = new Set(connectors);
  }

  /** Undefined where nothing is left, or only what had to be waited for longer than `leftMs`. */
  next(nowMs: number, leftMs: number): Next | undefined {
    const { health } = this.#deps;
    const left = [...this.#left];
    const times = (connector: RoutableConnector) => this.#tries.get(connector)?.times ?? 0;
    const ready = left.filter((connector) => health.isReady(connector)).sort((a, b) => times(a) - times(b));
    const others = left.filter((connector) => !ready.includes(connector));
    const untried = others.filter((connector) => times(connector) === 0);
    const last = health.leastBad(untried.length > 0 ? untried : others);
    for (const connector of last ? [...ready, last] : ready) {
      const pauseMs = this.#pauseMs(connector, nowMs);
      if (pauseMs < Math.min(leftMs, MAX_PAUSE_MS)) return { connector, pauseMs };
    }
    return undefined;
  }

  /** It failed, and asks to be left alone for so long. */
  failed(connector: RoutableConnector, nowMs: number, retryAfterMs = 0): void {
    const times = (this.#tries.get(connector)?.times ?? 0) + 1;
    this.#tries.set(connector, { times, notBeforeMs: nowMs + retryAfterMs });
  }

  /** It is not to be tried by this request any more. */
  exclude(connector: RoutableConnector): void {
    this.#left.delete(connector);
  }

  #pauseMs(connector: RoutableConnector, nowMs: number): number {
    const tried = this.#tries.get(connector);
    if (!tried) return 0;
    const backOffMs = FIRST_BACK_OFF_MS * 2 ** (tried.times - 1) * (0.5 + this.#deps.random() / 2);
    return Math.max(tried.notBeforeMs - nowMs, backOffMs);
  }
}
