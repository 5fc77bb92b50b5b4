import type { Metrics } from '@weighbridge/runtime';
import type { ControlPlane } from './controlPlane.ts';
import type { ControlState, ControlStatus } from './controlState.ts';
import type { KeyStore } from './keyStore.ts';

const STATUSES: Record<ControlStatus, number> = { starting: 0, live: 1, stale: 2, expired: 3 };

/** Registers the metrics of this proxy's state from the control plane. */
export function addControlMetrics(
  metrics: Metrics,
  state: ControlState,
  keys: KeyStore,
  controlPlane: Pick<ControlPlane, 'failedUpdates'>,
): void {
  metrics.gauge(
    'weighbridge_view_state',
    'Freshness of the state from the control plane: 0 starting, 1 live, 2 stale, 3 expired.',
    () => STATUSES[state.status(performance.now())],
  );
  metrics.gauge('weighbridge_view_age_seconds', 'Time since the last contact with the control plane.', () =>
    state.table ? (performance.now() - state.lastContactMs) / 1_000 : Number.NaN,
  );
  metrics.gauge('weighbridge_applied_revision', 'The revision that was applied last.', () =>
    Number(state.position?.revision ?? 0n),
  );
  metrics.gauge(
    'weighbridge_failed_updates',
    'Control streams in a row that ended because an update could not be applied.',
    () => controlPlane.failedUpdates(),
  );
  metrics.gauge('weighbridge_known_keys', 'Keys in the cache.', () => keys.size);
}
