import type { Counter, Histogram, Metrics } from '@weighbridge/runtime';
import type { Endpoint } from './endpoints.ts';
import { getOrCreate } from './getOrCreate.ts';
import type { RequestOutcome } from './outcomes.ts';
import { OVERHEAD_SECONDS, type OverheadWindow } from './overheadWindow.ts';
import { policyOf, type RequestObservation } from './requestObservation.ts';

const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const FIRST_CHUNK_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];

interface EndpointSeries {
  readonly overhead: Histogram;
  readonly firstChunk: Histogram;
  readonly ended: Map<RequestOutcome, EndedSeries>;
}

interface EndedSeries {
  readonly duration: Histogram;
  readonly byModel: Map<string, Counter>;
}

/** Counts requests at their end. test/hotPath.cost.test.ts bounds its cost. */
export function createRequestMetrics(
  metrics: Metrics,
  recentOverhead: Pick<OverheadWindow, 'observe'>,
): (observed: RequestObservation, outcome: RequestOutcome, endedAt: number) => void {
  const total = metrics.counterFamily('weighbridge_requests_total', 'Requests that ended.', [
    'endpoint',
    'model',
    'outcome',
  ]);
  const duration = metrics.histogramFamily(
    'weighbridge_request_duration_seconds',
    'Time from the head of a request until it was settled.',
    ['endpoint', 'outcome'],
    REQUEST_SECONDS,
  );
  const overhead = metrics.histogramFamily(
    'weighbridge_request_overhead_seconds',
    'Time until the response began, without the time spent waiting for vendors.',
    ['endpoint'],
    OVERHEAD_SECONDS,
  );
  const firstChunk = metrics.histogramFamily(
    'weighbridge_time_to_first_chunk_seconds',
    'Time from the head of a request until the first chunk of its streamed response.',
    ['endpoint'],
    FIRST_CHUNK_SECONDS,
  );
  const refusals = metrics.counter(
    'weighbridge_limit_refusals_total',
    'Requests refused because of a limit, by the governing policy of the key.',
    ['policy', 'limit'],
  );
  const series = new Map<Endpoint, EndpointSeries>();

  const ofEndpoint = (endpoint: Endpoint): EndpointSeries => ({
    overhead: overhead.of(endpoint),
    firstChunk: firstChunk.of(endpoint),
    ended: new Map(),
  });

  return (observed, outcome, endedAt) => {
    const { endpoint, model, receivedAt } = observed;
    const ofRequest = getOrCreate(series, endpoint, () => ofEndpoint(endpoint));
    const ended = getOrCreate(ofRequest.ended, outcome, () => ({
      duration: duration.of(endpoint, outcome),
      byModel: new Map<string, Counter>(),
    }));
    getOrCreate(ended.byModel, model, () => total.of(endpoint, model || 'none', outcome)).add(1);
    ended.duration.observe((endedAt - receivedAt) / 1_000);
    if (observed.overheadMs !== undefined) {
      ofRequest.overhead.observe(observed.overheadMs / 1_000);
      recentOverhead.observe(observed.overheadMs);
    }
    if (observed.firstChunkAt !== undefined) {
      ofRequest.firstChunk.observe((observed.firstChunkAt - receivedAt) / 1_000);
    }
    if (outcome === 'budget' || outcome === 'rate_limit') {
      const limit = outcome === 'budget' ? 'budget' : 'rate';
      refusals.inc({ policy: policyOf(observed), limit });
    }
  };
}
