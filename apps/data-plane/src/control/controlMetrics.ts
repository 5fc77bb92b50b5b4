import type { Metrics } from '@weighbridge/runtime';
import type { ControlState, ControlStatus } from './controlState.ts';
import type { KeyStore } from './keyStore.ts';

const STATES: Record<ControlStatus, number> = { starting: 0, live: 1, stale: 2, expired: 3 };

/** How this proxy stands with its control plane, as metrics. */
export function addControlMetrics(metrics: Metrics, view: ControlState, keys: KeyStore): void {
  metrics.gauge(
    'weighbridge_view_state',
    '0 starting, 1 live, 2 stale, 3 expired.',
    () => STATES[view.state(performance.now())],
  );
  metrics.gauge('weighbridge_view_age_seconds', 'Since the control plane was last heard of.', () =>
    view.table ? (performance.now() - view.heardAtMs) / 1_000 : Number.NaN,
  );
  metrics.gauge('weighbridge_applied_revision', 'The revision that was applied last.', () =>
    Number(view.position?.revision ?? 0n),
  );
  metrics.gauge('weighbridge_known_keys', 'Keys in the cache.', () => keys.size);
}
