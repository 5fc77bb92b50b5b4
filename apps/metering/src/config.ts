import { LOG_LEVELS, readSettings } from '@weighbridge/runtime';
import Type from 'typebox';

const Settings = Type.Object({
  DATABASE_URL: Type.String({
    pattern: '^postgres(ql)?://',
    description: 'the address of Postgres, such as postgresql://user:password@host:5432/weighbridge',
  }),
  NATS_URL: Type.String({
    pattern: '^(nats|tls)://',
    description: 'the address of NATS with JetStream, such as nats://host:4222, several with commas',
  }),
  HOST: Type.String({ default: '127.0.0.1', description: 'the address to listen on' }),
  PORT: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: 8083,
    description: 'the port for health checks, a number from 0 to 65535',
  }),
  LOG_LEVEL: Type.Union(
    LOG_LEVELS.map((level) => Type.Literal(level)),
    { default: 'info', description: `one of ${LOG_LEVELS.join(', ')}` },
  ),
});

export interface MeteringConfig {
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly http: { readonly host: string; readonly port: number };
  readonly logLevel: (typeof LOG_LEVELS)[number];
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
