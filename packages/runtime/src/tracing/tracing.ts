import Type from 'typebox';
import type { Counter, Family } from '../metrics/metricFamily.ts';

/** What a span says: numbers, words, and lists of words. */
export type SpanAttributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

export type SpanKindName = 'server' | 'client' | 'producer' | 'consumer' | 'internal';

/** Where a trace goes on (https://www.w3.org/TR/trace-context/). */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

export interface NewSpan {
  readonly kind: SpanKindName;
  /** Whose trace it is part of: a span of this process, or what another one has sent. Without, it begins a trace. */
  readonly parent?: TracedSpan | Readonly<Record<string, unknown>> | undefined;
  readonly attributes?: SpanAttributes;
  /** `traceparent`s of other traces that it is about. */
  readonly links?: readonly string[];
}

/** Something that takes time. One that is not sampled costs next to nothing, and is passed on as what it is. */
export interface TracedSpan {
  /** It is exported; else nothing needs to be told to it. */
  readonly isSampled: boolean;
  /** 32 characters. */
  readonly traceId: string;
  /** To be sent along. */
  readonly headers: TraceHeaders;
  set(attributes: SpanAttributes): void;
  /** Once. `errorType` is a word, for what went wrong; never a message. */
  end(errorType?: string): void;
}

export interface Tracing {
  begin(name: string, span: NewSpan): TracedSpan;
}

export interface TracingConfig {
  /** Traces go to `<endpoint>/v1/traces`. */
  readonly endpoint: string;
  /** `name=value` with commas. */
  readonly headers: string | undefined;
  readonly timeoutMs: number;
  readonly serviceName: string;
  /** Of the traces that begin here; those of callers go on as they were begun. */
  readonly ratio: number;
}

/** The standard variables (https://opentelemetry.io/docs/specs/otel/protocol/exporter/), to be spread into the settings of each app. */
export const TracingSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: Type.Optional(
    Type.String({
      pattern: '^https?://',
      description:
        'the base URL of a collector that takes traces by OTLP over HTTP, such as http://host:4318',
    }),
  ),
  OTEL_EXPORTER_OTLP_HEADERS: Type.Optional(
    Type.String({ description: 'what is sent to the collector: name=value, several with commas' }),
  ),
  OTEL_EXPORTER_OTLP_TIMEOUT: Type.Integer({
    minimum: 100,
    maximum: 60_000,
    default: 10_000,
    description: 'how long the collector may take, in milliseconds, from 100 to 60000',
  }),
  OTEL_SERVICE_NAME: Type.Optional(Type.String({ description: 'what traces call this service' })),
  OTEL_TRACES_SAMPLER_ARG: Type.Number({
    minimum: 0,
    maximum: 1,
    default: 1,
    description: 'which part of the traces that begin here is exported, from 0 to 1',
  }),
};

/** Undefined where no collector is named. */
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

/** What became of spans: `sent`, `failed` (the collector did not take them), `dropped` (there was no room for them). */
export type SpanCounts = Family<Counter>;
