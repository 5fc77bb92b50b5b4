import type { Metrics } from '../metrics/metrics.ts';
import type { ServiceContext } from '../runService.ts';
import type { Tracing, TracingConfig } from './tracing.ts';

/** How long the last spans are given to leave when the service ends. */
const FLUSH_TIMEOUT_MS = 3_000;

/**
 * Traces where a collector is configured; undefined, and nothing is loaded, where none is. To be called before what it
 * traces is started: it ends after that.
 */
export async function startTracing(
  config: TracingConfig | undefined,
  metrics: Metrics,
  { logger, onShutdown }: Pick<ServiceContext, 'logger' | 'onShutdown'>,
): Promise<Tracing | undefined> {
  const counts = metrics.counterFamily('weighbridge_trace_spans_total', 'Spans, by what became of them.', [
    'result',
  ]);
  if (!config) return undefined;
  const { createTracing } = await import('./otlp.ts');
  const tracing = createTracing(config, counts, logger);
  onShutdown('traces', () => tracing.close(), FLUSH_TIMEOUT_MS);
  return tracing;
}
