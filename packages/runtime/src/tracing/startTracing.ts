import type { Metrics } from '../metrics/metrics.ts';
import type { ServiceContext } from '../service/runService.ts';
import type { Tracing, TracingConfig } from './tracing.ts';

/** For sending the last spans at shutdown. */
const FLUSH_TIMEOUT_MS = 3_000;

/**
 * Starts tracing if a collector is configured; otherwise returns undefined, and loads nothing. Call it before starting what
 * is traced, so that tracing is closed after it.
 */
export async function startTracing(
  config: TracingConfig | undefined,
  metrics: Metrics,
  { logger, onShutdown }: Pick<ServiceContext, 'logger' | 'onShutdown'>,
): Promise<Tracing | undefined> {
  const counts = metrics.counterFamily('weighbridge_trace_spans_total', 'Spans, by result.', ['result']);
  if (!config) return undefined;
  const { createTracing } = await import('./otlp.ts');
  const tracing = createTracing(config, counts, logger);
  onShutdown('traces', () => tracing.close(), FLUSH_TIMEOUT_MS);
  return tracing;
}
