import type { Metrics } from '@weighbridge/runtime';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Counts and times the gRPC calls of proxies. */
export function createCallMetrics(
  metrics: Metrics,
): <Response>(call: string, run: () => Promise<Response>) => Promise<Response> {
  const total = metrics.counterFamily('weighbridge_control_calls_total', 'gRPC calls of proxies.', [
    'call',
    'outcome',
  ]);
  const duration = metrics.histogramFamily(
    'weighbridge_control_call_duration_seconds',
    'Duration of the gRPC calls of proxies.',
    ['call'],
    SECONDS,
  );
  return async (call, run) => {
    const began = performance.now();
    let outcome = 'error';
    try {
      const response = await run();
      outcome = 'ok';
      return response;
    } finally {
      total.of(call, outcome).add(1);
      duration.of(call).observe((performance.now() - began) / 1_000);
    }
  };
}
