export { ensureFolder } from './folders/ensureFolder.ts';
export { type FolderHeld, type FolderLock, lockFolder } from './folders/folderLock.ts';
export { type HttpLimits, type HttpServer, type HttpServerOptions, listenHttp } from './http/httpServer.ts';
export { malformedJson } from './http/jsonBody.ts';
export {
  assertBodyFits,
  assertJsonBody,
  bodyTooLarge,
  clientGone,
  methodNotAllowed,
  sendContinue,
} from './http/requestChecks.ts';
export { type BodyReader, RequestMessage } from './http/requestMessage.ts';
export { createLogger, type Logger, type LogLevelName } from './logging/logger.ts';
export { redactSecrets } from './logging/redact.ts';
export { memoryLimitBytes } from './memoryLimit.ts';
export { addCertificateMetric } from './metrics/certificateMetric.ts';
export { listenMetrics, type MetricsAddress } from './metrics/listenMetrics.ts';
export type { CostCounter, Counter, Family, Histogram } from './metrics/metricFamily.ts';
export { createMetrics, type Metrics } from './metrics/metrics.ts';
export { assertPublicHost, isPublicAddress, NOT_PUBLIC, publicLookup } from './publicAddresses.ts';
export { explainError, runService, type ServiceContext } from './service/runService.ts';
export { type ArchiveConfig, ArchiveSettings, archiveConfig } from './settings/archiveSettings.ts';
export {
  ControlPlaneToken,
  DatabaseUrl,
  Host,
  HttpLimitSettings,
  httpLimits,
  LogLevel,
  MetricsSettings,
  metricsAddress,
  NatsStreamSettings,
  NatsUrl,
  Port,
  ShutdownDelayMs,
  ShutdownGraceMs,
  TlsSettings,
  tlsFiles,
} from './settings/commonSettings.ts';
export { readSettings, SettingsError } from './settings/settings.ts';
export { startTracing } from './tracing/startTracing.ts';
export {
  type SpanAttributes,
  type TracedSpan,
  type TraceHeaders,
  type Tracing,
  type TracingConfig,
  TracingSettings,
  tracingConfig,
} from './tracing/tracing.ts';
