import type { KeyValueBucket } from '@weighbridge/bus';
import type { Metrics } from '@weighbridge/runtime';
import type { ConnectorHealth } from '../upstream/connectorHealth.ts';
import { createPinStore } from './pinStore.ts';
import { createSessionPins, type SessionPins } from './sessionPins.ts';

export interface OpenSessionPinsDeps {
  readonly bucket: KeyValueBucket;
  readonly ttlMs: number;
  readonly health: ConnectorHealth;
  readonly metrics: Metrics;
}

/** How long a request waits for the store. */
const STORE_TIMEOUT_MS = 250;

/** The session pins of a proxy, with their metrics. */
export function openSessionPins({ bucket, ttlMs, health, metrics }: OpenSessionPinsDeps): SessionPins {
  const decisions = metrics.counter(
    'weighbridge_pin_decisions_total',
    'Requests of sessions, by how the pin was found: new, stored, known, moved or unstored.',
    ['result'],
  );
  const storeErrors = metrics.counter(
    'weighbridge_pin_store_errors_total',
    'Requests to the store of session pins that failed or timed out.',
    [],
  );
  const clockMs = () => Date.now();
  return createSessionPins({
    store: createPinStore(bucket, clockMs),
    health,
    ttlMs,
    timeoutMs: STORE_TIMEOUT_MS,
    clockMs,
    onDecided: (result) => decisions.inc({ result }),
    onStoreError: () => storeErrors.inc(),
  });
}
