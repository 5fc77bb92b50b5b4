import {
  DatabaseUrl,
  Host,
  LogLevel,
  type LogLevelName,
  NatsUrl,
  Port,
  readSettings,
} from '@weighbridge/runtime';
import Type from 'typebox';

const Settings = Type.Object({
  DATABASE_URL: DatabaseUrl,
  NATS_URL: NatsUrl,
  HOST: Host,
  PORT: Port(8083, 'health checks'),
  LOG_LEVEL: LogLevel('info'),
});

export interface MeteringConfig {
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly http: { readonly host: string; readonly port: number };
  readonly logLevel: LogLevelName;
}

/** The metering worker's settings, each with its default in docs/configuration.md. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): MeteringConfig {
  const settings = readSettings(Settings, env);
  return {
    databaseUrl: settings.DATABASE_URL,
    natsUrl: settings.NATS_URL,
    http: { host: settings.HOST, port: settings.PORT },
    logLevel: settings.LOG_LEVEL,
  };
}
