import type { MessageInitShape } from '@bufbuild/protobuf';
import { type ConnectorConditionSchema, ConnectorState as ReportedState } from '@weighbridge/contracts';
import type { Metrics } from '@weighbridge/runtime';
import type { RoutableConnector, RoutingTable } from '@weighbridge/state';
import { CircuitBreaker, type CircuitBreakerState } from './circuitBreaker.ts';

/** What an attempt says about its connector; `unknown`: nothing. */
export type AttemptResult = 'good' | 'bad' | 'credential_rejected' | 'unknown';

/** `dead`: the vendor rejected the credential, and has accepted nothing with it since. */
export type ConnectorState = CircuitBreakerState | 'dead';

/** A dead connector is probed this often: the credential may have been renewed, or the account paid, at the vendor. */
export const DEAD_PROBE_MS = 60_000;

interface Health {
  readonly breaker: CircuitBreaker;
  /** When the vendor last accepted the credential. */
  acceptedAtMs: number;
  /** Undefined if it is not dead. */
  deadSinceMs: number | undefined;
  /** Of a dead connector: when its credential was last rejected, or the last probe began. */
  probedAtMs: number;
}

/**
 * The health of the connectors, in memory. It is held by object: the routing table makes a new one when a connector's
 * settings or credential change, and its health starts over.
 */
export class ConnectorHealth {
  readonly #nowMs: () => number;
  readonly #healthOf = new WeakMap<RoutableConnector, Health>();

  /** `nowMs` is monotonic. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  state(connector: RoutableConnector): ConnectorState {
    const { breaker, deadSinceMs } = this.#of(connector);
    return deadSinceMs === undefined ? breaker.state(this.#nowMs()) : 'dead';
  }

  isReady(connector: RoutableConnector): boolean {
    const { breaker, deadSinceMs, probedAtMs } = this.#of(connector);
    const nowMs = this.#nowMs();
    return (deadSinceMs === undefined || nowMs - probedAtMs >= DEAD_PROBE_MS) && breaker.admits(nowMs);
  }

  /** How long it has been open or dead; 0 if it is neither. */
  downForMs(connector: RoutableConnector): number {
    const { breaker, deadSinceMs } = this.#of(connector);
    const nowMs = this.#nowMs();
    return deadSinceMs === undefined ? breaker.openForMs(nowMs) : nowMs - deadSinceMs;
  }

  /** For when none is ready: the one with the lowest error ratio, dead ones last; the first of equals. */
  leastUnhealthy(connectors: readonly RoutableConnector[]): RoutableConnector | undefined {
    const errorRatio = (connector: RoutableConnector) => {
      const { breaker, deadSinceMs } = this.#of(connector);
      return deadSinceMs === undefined ? breaker.errorRatio(this.#nowMs()) : 2;
    };
    const [first] = connectors.toSorted((a, b) => errorRatio(a) - errorRatio(b));
    return first;
  }

  /** Starts an attempt. Returns `reportResult`: call it once, with the attempt's result. */
  begin(connector: RoutableConnector): (result: AttemptResult) => void {
    const health = this.#of(connector);
    const begunAtMs = this.#nowMs();
    const probedBeforeMs = health.probedAtMs;
    if (health.deadSinceMs !== undefined) health.probedAtMs = begunAtMs;
    const end = health.breaker.begin(begunAtMs);
    return (result) => {
      const nowMs = this.#nowMs();
      // A dead connector that accepts its credential again, whether it was probed or tried for want of a better one.
      if (result === 'good') accept(health, nowMs);
      if (result === 'credential_rejected') reject(health, nowMs);
      // The probe said nothing: the next attempt is one.
      if (result === 'unknown' && health.probedAtMs === begunAtMs) health.probedAtMs = probedBeforeMs;
      end(result === 'good' ? true : result === 'bad' ? false : undefined, nowMs);
    };
  }

  /** The vendor accepts the connector's credential. */
  accept(connector: RoutableConnector): void {
    accept(this.#of(connector), this.#nowMs());
  }

  /** The vendor refuses the connector's credential, whoever uses it. */
  reject(connector: RoutableConnector): void {
    reject(this.#of(connector), this.#nowMs());
  }

  /** Whether the vendor accepted the credential within this time, and has not refused it since. */
  wasAccepted(connector: RoutableConnector, withinMs: number): boolean {
    const { acceptedAtMs, deadSinceMs } = this.#of(connector);
    return deadSinceMs === undefined && this.#nowMs() - acceptedAtMs < withinMs;
  }

  #of(part: RoutableConnector): Health {
    const connector = part.whole ?? part;
    const known = this.#healthOf.get(connector);
    if (known) return known;
    const health = {
      breaker: new CircuitBreaker(),
      acceptedAtMs: Number.NEGATIVE_INFINITY,
      deadSinceMs: undefined,
      probedAtMs: 0,
    };
    this.#healthOf.set(connector, health);
    return health;
  }
}

function accept(health: Health, nowMs: number): void {
  health.deadSinceMs = undefined;
  health.acceptedAtMs = nowMs;
}

function reject(health: Health, nowMs: number): void {
  health.probedAtMs = nowMs;
  health.deadSinceMs ??= nowMs;
}

const MAX_REPORTED = 100;
const REPORTED: Record<Exclude<ConnectorState, 'closed'>, ReportedState> = {
  'half-open': ReportedState.HALF_OPEN,
  open: ReportedState.OPEN,
  dead: ReportedState.DEAD,
};

/** What a status of this proxy says of the connectors: those that are not closed, the longest down first. */
export function reportHealth(
  health: Pick<ConnectorHealth, 'state' | 'downForMs'>,
  table: RoutingTable | undefined,
): MessageInitShape<typeof ConnectorConditionSchema>[] {
  return allConnectors(table)
    .flatMap((connector) => {
      const state = health.state(connector);
      if (state === 'closed') return [];
      const downForMs = BigInt(Math.floor(health.downForMs(connector)));
      return [{ connectorId: connector.id, state: REPORTED[state], downForMs }];
    })
    .sort((a, b) => Number(b.downForMs - a.downForMs))
    .slice(0, MAX_REPORTED);
}

function allConnectors(table: RoutingTable | undefined): RoutableConnector[] {
  return [...(table?.connectors.values() ?? [])].flat();
}

const STATE_VALUES: Record<ConnectorState, number> = { closed: 0, 'half-open': 1, open: 2, dead: 3 };

export function addHealthMetrics(
  metrics: Metrics,
  health: ConnectorHealth,
  table: () => RoutingTable | undefined,
): void {
  metrics.gaugeBy(
    'weighbridge_connector_state',
    'State of the circuit breaker: 0 closed, 1 half-open, 2 open, 3 dead (the vendor refused the credential).',
    ['connector'],
    () =>
      allConnectors(table()).map(
        (connector) => [{ connector: connector.id }, STATE_VALUES[health.state(connector)]] as const,
      ),
  );
}
