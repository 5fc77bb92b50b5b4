import Type from 'typebox';
import type { Counter, Family } from '../metrics/metricFamily.ts';

export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

export type SpanKindName = 'server' | 'client' | 'producer' | 'consumer' | 'internal';

/** Trace context, for outgoing requests (https://www.w3.org/TR/trace-context/). */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

export interface NewSpan {
  readonly kind: SpanKindName;
  /** A span of this process, or the headers of a request. Without a parent, the span begins a trace. */
  readonly parent?: TracedSpan | Readonly<Record<string, unknown>> | undefined;
  readonly attributes?: SpanAttributes;
  /** `traceparent`s of related traces. */
  readonly links?: readonly string[];
}

/** A span that is not sampled costs almost nothing, and propagates that decision. */
export interface TracedSpan {
  /** If false, attributes need not be set. */
  readonly isSampled: boolean;
  /** 32 characters. */
  readonly traceId: string;
  /** For outgoing requests. */
  readonly headers: TraceHeaders;
  set(attributes: SpanAttributes): void;
  /** Call it once. `errorType` is a low-cardinality identifier, never a message. */
  end(errorType?: string): void;
}

export interface Tracing {
  begin(name: string, span: NewSpan): TracedSpan;
}

export interface TracingConfig {
  /** Spans are sent to `<endpoint>/v1/traces`. */
  readonly endpoint: string;
  /** `name=value` with commas. */
  readonly headers: string | undefined;
  readonly timeoutMs: number;
  readonly serviceName: string;
  /** The share of traces to sample, of those that begin here. Traces of clients keep their decision. */
  readonly ratio: number;
}

/** The standard variables (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). Spread them into the settings of an app. */
export const TracingSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(
    Type.String({
      pattern: '^https?://',
      description: 'the base URL of a collector that accepts OTLP over HTTP, such as http://host:4318',
    }),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(
    Type.String({ description: 'headers for the collector: name=value, several with commas' }),
  ),
  OTEL_EXPORTER_OTLP_TIMEOUT: Type.Integer({
    minimum: 100,
    maximum: 60_000,
    default: 10_000,
    description: 'the time-out for the collector, in milliseconds, from 100 to 60000',
  }),
  OTEL_SERVICE_NAME: Type.Optional(Type.String({ description: 'the name of this service in traces' })),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    minimum: 0,
    maximum: 1,
    default: 1,
    description: 'the share of traces to sample, of those that begin here, from 0 to 1',
  }),
};

/** Undefined without a collector. */
export function tracingConfig(
  settings: {
    readonly OTEL_EXPORTER_OTLP_ENDPOINT?: string;
    readonly OTEL_EXPORTER_OTLP_HEADERS?: string;
    readonly OTEL_EXPORTER_OTLP_TIMEOUT: number;
    readonly OTEL_SERVICE_NAME?: string;
    readonly OTEL_TRACES_SAMPLER_ARG: number;
  },
  serviceName: string,
): TracingConfig | undefined {
  const endpoint = settings.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return undefined;
  return {
    endpoint,
    headers: settings.OTEL_EXPORTER_OTLP_HEADERS,
    timeoutMs: settings.OTEL_EXPORTER_OTLP_TIMEOUT,
    serviceName: settings.OTEL_SERVICE_NAME ?? serviceName,
    ratio: settings.OTEL_TRACES_SAMPLER_ARG,
  };
}

/** By result: `sent`, `failed` (the collector rejected them), `dropped` (the queue was full). */
export type SpanCounts = Family<Counter>;
