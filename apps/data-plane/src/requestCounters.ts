import type { Metrics } from '@weighbridge/runtime';

/** The counters that requests increment through their dependencies. */
export function createRequestCounters(metrics: Metrics) {
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
  return {
    onKeyLookUp: (result: 'hit' | 'miss') => (result === 'hit' ? hits : misses).add(1),
    onReserveExceeded: (model: string) => reserveExceeded.inc({ model }),
    onFailover: (connector: string, reason: string) => failovers.inc({ connector, reason }),
  };
}
