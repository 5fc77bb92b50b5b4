import {
  type Attributes,
  type Context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { ParentBasedSampler, TraceIdRatioBasedSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Logger } from '../logging/logger.ts';
import { createSpanQueue } from './spanQueue.ts';
import type {
  NewSpan,
  SpanAttributes,
  SpanCounts,
  SpanKindName,
  TracedSpan,
  TraceHeaders,
  Tracing,
  TracingConfig,
} from './tracing.ts';

/** Enough for a captured prompt, the longest attribute. */
const MAX_ATTRIBUTE_LENGTH = 64 * 1024;
const MAX_LINKS = 32;

const KINDS: Readonly<Record<SpanKindName, SpanKind>> = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
};

const propagator = new W3CTraceContextPropagator();

/** Traces over OTLP. It sets nothing global, so the process may have other tracing. */
export function createTracing(
  config: TracingConfig,
  counts: SpanCounts,
  logger: Logger,
): Tracing & { close(): Promise<void> } {
  const { endpoint, headers, timeoutMs, serviceName, ratio } = config;
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, '')}/v1/traces`,
    timeoutMillis: timeoutMs,
    ...(headers !== undefined && { headers: readHeaders(headers) }),
  });
  const provider = new TracerProvider({
    resource: detectResources({ detectors: [envDetector] }).merge(
      resourceFromAttributes({ 'service.name': serviceName }),
    ),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_LENGTH, linkCountLimit: MAX_LINKS },
    spanProcessors: [createSpanQueue(exporter, { counts, logger, timeoutMs })],
  });
  const tracer = provider.getTracer('weighbridge');
  return {
    begin(name, { kind, parent, attributes, links }) {
      const options = {
        kind: KINDS[kind],
        ...(attributes && { attributes: attributes as Attributes }),
        ...(links && { links: links.slice(0, MAX_LINKS).flatMap(linkTo) }),
      };
      return new OtlpSpan(tracer.startSpan(name, options, contextOf(parent)));
    },
    close: () => provider.shutdown(),
  };
}

class OtlpSpan implements TracedSpan {
  readonly span: Span;
  readonly isSampled: boolean;

  constructor(span: Span) {
    this.span = span;
    this.isSampled = span.isRecording();
  }

  get traceId(): string {
    return this.span.spanContext().traceId;
  }

  get headers(): TraceHeaders {
    const headers: Record<string, string> = {};
    propagator.inject(trace.setSpan(ROOT_CONTEXT, this.span), headers, defaultTextMapSetter);
    return headers as Record<string, string> & TraceHeaders;
  }

  set(attributes: SpanAttributes): void {
    this.span.setAttributes(attributes as Attributes);
  }

  end(errorType?: string): void {
    if (errorType !== undefined) {
      this.span.setAttribute('error.type', errorType);
      this.span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.span.end();
  }
}

function contextOf(parent: NewSpan['parent']): Context {
  if (!parent) return ROOT_CONTEXT;
  if (parent instanceof OtlpSpan) return trace.setSpan(ROOT_CONTEXT, parent.span);
  return propagator.extract(ROOT_CONTEXT, parent, defaultTextMapGetter);
}

function linkTo(traceparent: string): Link[] {
  const context = trace.getSpanContext(
    propagator.extract(ROOT_CONTEXT, { traceparent }, defaultTextMapGetter),
  );
  return context ? [{ context }] : [];
}

/** Percent-encoded like baggage, by the specification. */
function readHeaders(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((pair) => {
    const at = pair.indexOf('=');
    return at > 0 ? [[decode(pair.slice(0, at).trim()), decode(pair.slice(at + 1).trim())] as const] : [];
  });
  return Object.fromEntries(pairs);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
