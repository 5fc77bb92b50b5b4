import { resolve } from 'node:path';
import {
  DatabaseUrl,
  Host,
  HttpLimitSettings,
  type HttpLimits,
  httpLimits,
  LogLevel,
  type LogLevelName,
  type MetricsAddress,
  MetricsSettings,
  metricsAddress,
  NatsStreamSettings,
  NatsUrl,
  Port,
  readSettings,
  ShutdownGraceMs,
  type TracingConfig,
  TracingSettings,
  tracingConfig,
} from '@weighbridge/runtime';
import Type from 'typebox';

const Settings = Type.Object({
  HOST: Host,
  PORT: Port(8080, 'everything'),
  ...MetricsSettings,
  WEIGHBRIDGE_DATA_DIR: Type.String({ default: '.weighbridge', description: 'the folder for all data' }),
  WEIGHBRIDGE_STANDALONE_IMAGE: Type.Boolean({
    default: false,
    description: 'set by the image `standalone`: what is printed at the start runs commands in the container',
  }),
  DATABASE_URL: Type.Optional(DatabaseUrl),
  NATS_URL: Type.Optional(NatsUrl),
  ...NatsStreamSettings,
  ...HttpLimitSettings,
  SHUTDOWN_GRACE_MS: ShutdownGraceMs(10_000),
  ...TracingSettings,
  LOG_LEVEL: LogLevel('warn'),
});

/** The settings of embedded mode itself; the apps in it read their own. */
export interface UpConfig {
  readonly host: string;
  readonly port: number;
  /** Undefined: metrics are served to operators' keys only, on `port`. */
  readonly metrics: MetricsAddress | undefined;
  readonly limits: HttpLimits;
  /** Absolute. */
  readonly dataDir: string;
  readonly isStandaloneImage: boolean;
  readonly databaseUrl: string | undefined;
  readonly natsUrl: string | undefined;
  readonly natsStream: { readonly replicas: number; readonly maxBytes: number };
  readonly shutdownGraceMs: number;
  /** Undefined: no tracing. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
}

export function loadUpConfig(env: Readonly<Record<string, string | undefined>>): UpConfig {
  const settings = readSettings(Settings, env);
  return {
    host: settings.HOST,
    port: settings.PORT,
    metrics: metricsAddress(settings, { PORT: settings.PORT }),
    limits: httpLimits(settings),
    dataDir: resolve(settings.WEIGHBRIDGE_DATA_DIR),
    isStandaloneImage: settings.WEIGHBRIDGE_STANDALONE_IMAGE,
    databaseUrl: settings.DATABASE_URL,
    natsUrl: settings.NATS_URL,
    natsStream: { replicas: settings.NATS_STREAM_REPLICAS, maxBytes: settings.NATS_STREAM_MAX_BYTES },
    shutdownGraceMs: settings.SHUTDOWN_GRACE_MS,
    tracing: tracingConfig(settings, 'weighbridge'),
    logLevel: settings.LOG_LEVEL,
  };
}
