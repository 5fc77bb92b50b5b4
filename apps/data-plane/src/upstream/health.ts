import type { Metrics } from '@weighbridge/runtime';
import type { RoutableConnector, RoutingTable } from '../control/routingTable.ts';
import { Breaker, type BreakerState } from './breaker.ts';

/** What an attempt says of its connector: `refused`, that its credential is none; `unknown`, nothing. */
export type AttemptResult = 'good' | 'bad' | 'refused' | 'unknown';

/** `dead`: its vendor refused the credential, and has taken it for nothing since. */
export type ConnectorState = BreakerState | 'dead';

/** A dead connector is asked so often: who was refused may have been one caller, for what others never ask. */
export const DEAD_PROBE_MS = 60_000;

interface Known {
  readonly breaker: Breaker;
  /** Undefined where it is not. */
  deadSinceMs: number | undefined;
  /** Where it is dead: when it refused last, or was last asked whether it still does. */
  askedAtMs: number;
}

/**
 * How the connectors of this proxy fare, in memory. What is known of one goes with its object: the routing table makes
 * another when its settings or its credential change.
 */
export class ConnectorHealth {
  readonly #nowMs: () => number;
  readonly #known = new WeakMap<RoutableConnector, Known>();

  /** `nowMs` is monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  state(connector: RoutableConnector): ConnectorState {
    const { breaker, deadSinceMs } = this.#of(connector);
    return deadSinceMs === undefined ? breaker.state(this.#nowMs()) : 'dead';
  }

  isReady(connector: RoutableConnector): boolean {
    const { breaker, deadSinceMs, askedAtMs } = this.#of(connector);
    const nowMs = this.#nowMs();
    return (deadSinceMs === undefined || nowMs - askedAtMs >= DEAD_PROBE_MS) && breaker.admits(nowMs);
  }

  /** How long it has been open or dead; 0 where it is neither now. */
  downForMs(connector: RoutableConnector): number {
    const { breaker, deadSinceMs } = this.#of(connector);
    const nowMs = this.#nowMs();
    return deadSinceMs === undefined ? breaker.openForMs(nowMs) : nowMs - deadSinceMs;
  }

  /** Where none is ready: the one with the fewest errors, a dead one last; of equals the first. */
  leastBad(connectors: readonly RoutableConnector[]): RoutableConnector | undefined {
    const badness = (connector: RoutableConnector) => {
      const { breaker, deadSinceMs } = this.#of(connector);
      return deadSinceMs === undefined ? breaker.errorRatio(this.#nowMs()) : 2;
    };
    const [first] = connectors.toSorted((a, b) => badness(a) - badness(b));
    return first;
  }

  /** An attempt begins; what it returns is to be called once. */
  begin(connector: RoutableConnector): (result: AttemptResult) => void {
    const known = this.#of(connector);
    const begunAtMs = this.#nowMs();
    const askedBeforeMs = known.askedAtMs;
    if (known.deadSinceMs !== undefined) known.askedAtMs = begunAtMs;
    const ended = known.breaker.begin(begunAtMs);
    return (result) => {
      // A probe, or tried for want of a better one, and taken after all.
      if (result === 'good') known.deadSinceMs = undefined;
      if (result === 'refused') {
        known.askedAtMs = this.#nowMs();
        known.deadSinceMs ??= known.askedAtMs;
      }
      // Nothing was learnt: the next one is the probe.
      if (result === 'unknown' && known.askedAtMs === begunAtMs) known.askedAtMs = askedBeforeMs;
      ended(result === 'good' ? true : result === 'bad' ? false : undefined, this.#nowMs());
    };
  }

  #of(connector: RoutableConnector): Known {
    const known = this.#known.get(connector) ?? {
      breaker: new Breaker(),
      deadSinceMs: undefined,
      askedAtMs: 0,
    };
    this.#known.set(connector, known);
    return known;
  }
}

const STATES: Record<ConnectorState, number> = { closed: 0, 'half-open': 1, open: 2, dead: 3 };

/** How the connectors of the table stand, as a metric. */
export function describeHealth(
  metrics: Metrics,
  health: ConnectorHealth,
  table: () => RoutingTable | undefined,
): void {
  metrics.gaugeBy(
    'weighbridge_connector_state',
    '0 closed, 1 half-open, 2 open, 3 dead: its vendor refused the credential.',
    ['connector'],
    () =>
      [...(table()?.connectors.values() ?? [])]
        .flat()
        .map((connector) => [{ connector: connector.id }, STATES[health.state(connector)]] as const),
  );
}
