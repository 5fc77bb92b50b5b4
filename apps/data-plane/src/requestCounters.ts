import type { Logger, Metrics } from '@weighbridge/runtime';
import type { RoutableConnector } from '@weighbridge/state';

/** While a credential is refused, each connector has one log line in this time: tenants send as many requests as they like. */
const UNAUTHORIZED_LOG_MS = 60_000;

/** The counters that requests increment through their dependencies. */
export function createRequestCounters(metrics: Metrics, logger: Pick<Logger, 'error' | 'warn'>) {
  const lookUps = metrics.counterFamily('weighbridge_key_lookups_total', 'Look-ups in the key cache.', [
    'met',
  ]);
  const [hits, misses] = [lookUps.of('hit'), lookUps.of('miss')];
  const reserveExceeded = metrics.counter(
    'weighbridge_reserve_exceeded_total',
    'Attempts under a hard budget that cost more than their reservation: the vendor ignored the output limit.',
    ['model'],
  );
  const failovers = metrics.counter(
    'weighbridge_failovers_total',
    'Attempts replaced by another one, and busy connectors that were skipped.',
    ['connector', 'reason'],
  );
  const unauthorized = metrics.counter(
    'weighbridge_connector_unauthorized_total',
    'Responses of a vendor that refuse the credential of a connector, and requests for which it had no access token.',
    ['connector'],
  );
  const suspected = metrics.counter(
    'weighbridge_connector_refusals_total',
    'Responses of a vendor that may refuse the credential of a connector, or only what the request asks for.',
    ['connector'],
  );
  const refusalsDropped = metrics
    .counterFamily(
      'weighbridge_refusals_dropped_total',
      'Refused requests that are in no row and in no count, since too many keys were refused.',
      [],
    )
    .of();
  const refused = oncePerConnector(UNAUTHORIZED_LOG_MS);
  const unclear = oncePerConnector(UNAUTHORIZED_LOG_MS);
  return {
    onUnauthorized(connector: RoutableConnector, status: number) {
      const { id, provider } = connector;
      unauthorized.inc({ connector: id });
      if (!refused(connector)) return;
      logger.error({ connectorId: id, provider, status }, status === 0 ? NO_TOKEN : REFUSED);
    },
    onSuspected(connector: RoutableConnector, status: number) {
      const { id, provider } = connector;
      suspected.inc({ connector: id });
      if (!unclear(connector)) return;
      logger.warn({ connectorId: id, provider, status }, UNCLEAR);
    },
    onKeyLookUp: (result: 'hit' | 'miss') => (result === 'hit' ? hits : misses).add(1),
    onRefusalsDropped: (count: number) => refusalsDropped.add(count),
    onReserveExceeded: (model: string) => reserveExceeded.inc({ model }),
    onFailover: (connector: string, reason: string) => failovers.inc({ connector, reason }),
  };
}

const NO_TOKEN = 'a request needed an access token for a connector, and there was none';
const REFUSED = 'the vendor refused the credential of a connector';
const UNCLEAR =
  'a vendor refused a request; the account of this connector may lack a right to the model or to what the request names';

/** True at most once in this time for each connector. A new routing table makes new connectors only for changed ones. */
function oncePerConnector(everyMs: number): (connector: RoutableConnector) => boolean {
  const lastMs = new WeakMap<RoutableConnector, number>();
  return (part) => {
    const connector = part.whole ?? part;
    const nowMs = performance.now();
    if (nowMs - (lastMs.get(connector) ?? Number.NEGATIVE_INFINITY) < everyMs) return false;
    lastMs.set(connector, nowMs);
    return true;
  };
}
