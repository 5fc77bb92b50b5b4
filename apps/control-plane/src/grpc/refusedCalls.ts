import type { Logger, Metrics } from '@weighbridge/runtime';

const LOGGED_EVERY_MS = 60_000;

/** Counts the calls that are refused for their token. Anyone can make them, so a line a minute tells of all. */
export function createRefusedCalls(
  { metrics, logger }: { readonly metrics: Metrics; readonly logger: Pick<Logger, 'warn'> },
  monotonicMs: () => number = () => performance.now(),
): (call: string) => void {
  const total = metrics.counterFamily(
    'weighbridge_control_calls_refused_total',
    'gRPC calls refused because their token is missing or wrong.',
    ['call'],
  );
  let loggedAt = Number.NEGATIVE_INFINITY;
  let refused = 0;
  return (call) => {
    total.of(call).add(1);
    refused++;
    const now = monotonicMs();
    if (now - loggedAt < LOGGED_EVERY_MS) return;
    logger.warn({ refused, call }, 'refused gRPC calls: their CONTROL_PLANE_TOKEN is missing or wrong');
    loggedAt = now;
    refused = 0;
  };
}
