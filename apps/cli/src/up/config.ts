import { resolve } from 'node:path';
import { LOG_LEVELS, readSettings } from '@weighbridge/runtime';
import Type from 'typebox';

const Settings = Type.Object({
  HOST: Type.String({ default: '127.0.0.1', description: 'the address to listen on' }),
  PORT: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: 8080,
    description: 'the port to listen on, a number from 0 to 65535',
  }),
  WEIGHBRIDGE_DATA_DIR: Type.String({ default: '.weighbridge', description: 'the folder for all data' }),
  DATABASE_URL: Type.Optional(
    Type.String({
      pattern: '^postgres(ql)?://',
      description: 'the address of Postgres, such as postgresql://user:password@host:5432/weighbridge',
    }),
  ),
  NATS_URL: Type.Optional(
    Type.String({
      pattern: '^(nats|tls)://',
      description: 'the address of NATS with JetStream, such as nats://host:4222, several with commas',
    }),
  ),
  LOG_LEVEL: Type.Union(
    LOG_LEVELS.map((level) => Type.Literal(level)),
    { default: 'warn', description: `one of ${LOG_LEVELS.join(', ')}` },
  ),
});

/** The settings of embedded mode that are not those of one of its apps. */
export interface UpConfig {
  readonly host: string;
  readonly port: number;
  /** Absolute. */
  readonly dataDir: string;
  readonly databaseUrl: string | undefined;
  readonly natsUrl: string | undefined;
  readonly logLevel: (typeof LOG_LEVELS)[number];
}

export function loadUpConfig(env: Readonly<Record<string, string | undefined>>): UpConfig {
  const settings = readSettings(Settings, env);
  return {
    host: settings.HOST,
    port: settings.PORT,
    dataDir: resolve(settings.WEIGHBRIDGE_DATA_DIR),
    databaseUrl: settings.DATABASE_URL,
    natsUrl: settings.NATS_URL,
    logLevel: settings.LOG_LEVEL,
  };
}
