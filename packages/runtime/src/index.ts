export { describeCertificate } from './certificateMetric.ts';
export {
  DatabaseUrl,
  Host,
  LogLevel,
  NatsStreamSettings,
  NatsUrl,
  Port,
  ShutdownDelayMs,
  ShutdownGraceMs,
  TlsSettings,
  tlsFiles,
} from './commonSettings.ts';
export { type FolderHeld, type FolderLock, lockFolder } from './folderLock.ts';
export {
  acceptJsonBodies,
  createHttpApp,
  type HttpAppOptions,
  isJsonType,
  malformedJson,
  refuseOtherMethods,
  requireJsonType,
  toHandler,
} from './httpApp.ts';
export { type HttpServer, type HttpServerOptions, listenHttp } from './httpServer.ts';
export { createLogger, type Logger, type LogLevelName } from './logger.ts';
export { makeFolder } from './makeFolder.ts';
export { createMetrics, type Metrics, serveMetrics } from './metrics.ts';
export { assertPublicHost, isPublicAddress, NOT_PUBLIC, publicLookup } from './publicAddresses.ts';
export { redactSecrets } from './redact.ts';
export { explainError, runService, type ServiceContext } from './runService.ts';
export type { CostTally, Family, Spread, Tally } from './series.ts';
export { readSettings, SettingsError } from './settings.ts';
export { startTracing } from './startTracing.ts';
export {
  type SpanAttributes,
  type TracedSpan,
  type TraceHeaders,
  type Tracing,
  type TracingConfig,
  TracingSettings,
  tracingConfig,
} from './tracing.ts';
