import { BatchSpanProcessor, type SpanExporter, type SpanProcessor } from '@opentelemetry/sdk-trace';
import type { Logger } from '../logger.ts';
import type { SpanCounts } from './tracing.ts';

/** Spans that wait to be sent: some megabytes. */
const MAX_QUEUED = 2_048;
const MAX_BATCH = 512;
const EVERY_MS = 1_000;
const LOG_EVERY_MS = 60_000;

export interface SpanQueueDeps {
  readonly counts: SpanCounts;
  readonly logger: Logger;
  readonly timeoutMs: number;
}

/** Sends spans by the batch. The queue is bounded, and what has no room in it, or is not taken, is counted and told. */
export function countedProcessor(
  exporter: SpanExporter,
  { counts, logger, timeoutMs }: SpanQueueDeps,
): SpanProcessor {
  const sent = counts.of('sent');
  const failed = counts.of('failed');
  const dropped = counts.of('dropped');
  let queued = 0;
  let failures = 0;
  let toldAt = Number.NEGATIVE_INFINITY;

  function complain(error: unknown): void {
    failures++;
    if (performance.now() - toldAt < LOG_EVERY_MS) return;
    logger.warn({ err: error, failures }, 'the collector does not take traces');
    toldAt = performance.now();
    failures = 0;
  }

  const counting: SpanExporter = {
    export(spans, done) {
      queued -= spans.length;
      exporter.export(spans, (result) => {
        // Zero is success: the enumeration is one of the SDK's own.
        (result.code === 0 ? sent : failed).add(spans.length);
        if (result.code !== 0) complain(result.error);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
  const batches = new BatchSpanProcessor({
    exporter: counting,
    maxQueueSize: MAX_QUEUED,
    maxExportBatchSize: MAX_BATCH,
    scheduledDelayMillis: EVERY_MS,
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
