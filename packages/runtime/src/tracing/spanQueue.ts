import { BatchSpanProcessor, type SpanExporter, type SpanProcessor } from '@opentelemetry/sdk-trace';
import type { Logger } from '../logging/logger.ts';
import type { SpanCounts } from './tracing.ts';

/** A few megabytes of spans. */
const MAX_QUEUED = 2_048;
const MAX_BATCH = 512;
const EXPORT_INTERVAL_MS = 1_000;
const LOG_INTERVAL_MS = 60_000;

export interface SpanQueueDeps {
  readonly counts: SpanCounts;
  readonly logger: Logger;
  readonly timeoutMs: number;
}

/** Sends spans in batches from a bounded queue. Counts the spans that were sent, failed, or dropped because it was full. */
export function createSpanQueue(
  exporter: SpanExporter,
  { counts, logger, timeoutMs }: SpanQueueDeps,
): SpanProcessor {
  const sent = counts.of('sent');
  const failed = counts.of('failed');
  const dropped = counts.of('dropped');
  let queued = 0;
  let failures = 0;
  let loggedAt = Number.NEGATIVE_INFINITY;

  function logFailure(error: unknown): void {
    failures++;
    if (performance.now() - loggedAt < LOG_INTERVAL_MS) return;
    logger.warn({ err: error, failures }, 'failed to send spans to the collector');
    loggedAt = performance.now();
    failures = 0;
  }

  const counting: SpanExporter = {
    export(spans, done) {
      queued -= spans.length;
      exporter.export(spans, (result) => {
        // ExportResultCode.SUCCESS; the SDK does not export the enumeration.
        (result.code === 0 ? sent : failed).add(spans.length);
        if (result.code !== 0) logFailure(result.error);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
  const batches = new BatchSpanProcessor({
    exporter: counting,
    maxQueueSize: MAX_QUEUED,
    maxExportBatchSize: MAX_BATCH,
    scheduledDelayMillis: EXPORT_INTERVAL_MS,
    exportTimeoutMillis: timeoutMs,
  });
  return {
    onStart: (span, context) => batches.onStart(span, context),
    onEnd(span) {
      if (queued >= MAX_QUEUED) return dropped.add(1);
      queued++;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}
