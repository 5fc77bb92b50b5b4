import {
  type ArchiveConfig,
  ArchiveSettings,
  archiveConfig,
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
  type TracingConfig,
  TracingSettings,
  tracingConfig,
} from '@weighbridge/runtime';
import Type from 'typebox';

const LedgerSettings = Type.Object({
  LEDGER_RETENTION_DAYS: Type.Integer({
    minimum: 35,
    maximum: 36_500,
    default: 400,
    description: 'how many days at least the ledger retains its rows, from 35 to 36500',
  }),
  LEDGER_HOT_DAYS: Type.Integer({
    minimum: 35,
    maximum: 36_500,
    default: 35,
    description:
      'how many days at least rows stay in Postgres before they are archived, from 35 to 36500: longer than the longest window that ends, which is a month',
  }),
  ...ArchiveSettings,
  REFUSED_REQUESTS_RETENTION_DAYS: Type.Integer({
    minimum: 1,
    maximum: 400,
    default: 30,
    description: 'how many days the rows of refused requests are retained, from 1 to 400',
  }),
});

const Settings = Type.Object({
  DATABASE_URL: DatabaseUrl,
  NATS_URL: NatsUrl,
  ...NatsStreamSettings,
  HOST: Host,
  PORT: Port(8083, 'health checks'),
  ...MetricsSettings,
  ...HttpLimitSettings,
  ...TracingSettings,
  LOG_LEVEL: LogLevel('info'),
});

interface LedgerConfig {
  readonly retentionDays: number;
  readonly refusalRetentionDays: number;
  /** Undefined: nothing is archived. */
  readonly archive: (ArchiveConfig & { readonly hotDays: number }) | undefined;
}

export interface MeteringConfig extends LedgerConfig {
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly natsStream: { readonly replicas: number; readonly maxBytes: number };
  readonly http: HttpLimits & { readonly host: string; readonly port: number };
  /** Undefined: metrics are not served. */
  readonly metrics: MetricsAddress | undefined;
  /** Undefined: nothing is traced. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
}

/** The settings that metering also has in embedded mode. */
export function loadLedgerConfig(env: Readonly<Record<string, string | undefined>>): LedgerConfig {
  const settings = readSettings(LedgerSettings, env);
  const archive = archiveConfig(settings);
  return {
    archive: archive && { ...archive, hotDays: settings.LEDGER_HOT_DAYS },
    retentionDays: settings.LEDGER_RETENTION_DAYS,
    refusalRetentionDays: settings.REFUSED_REQUESTS_RETENTION_DAYS,
  };
}

/** The metering worker's settings, listed with their defaults in docs/configuration.md. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): MeteringConfig {
  const settings = readSettings(Settings, env);
  return {
    ...loadLedgerConfig(env),
    databaseUrl: settings.DATABASE_URL,
    natsUrl: settings.NATS_URL,
    natsStream: { replicas: settings.NATS_STREAM_REPLICAS, maxBytes: settings.NATS_STREAM_MAX_BYTES },
    http: { host: settings.HOST, port: settings.PORT, ...httpLimits(settings) },
    metrics: metricsAddress(settings, { PORT: settings.PORT }),
    tracing: tracingConfig(settings, 'weighbridge-metering'),
    logLevel: settings.LOG_LEVEL,
  };
}
