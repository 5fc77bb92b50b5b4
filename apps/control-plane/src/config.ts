import { isWellFormedToken } from '@weighbridge/domain';
import {
  DatabaseUrl,
  Host,
  LogLevel,
  type LogLevelName,
  Port,
  readSettings,
  SettingsError,
} from '@weighbridge/runtime';
import Type from 'typebox';
import {
  credentialsIn,
  type EnvironmentConnector,
  environmentConnectors,
} from './features/connectors/connectors.ts';

const BOOTSTRAP_KEY_FORM =
  'sk-svc- and at least 32 of A-Z, a-z, 0-9, _ and - (49 of them only with the checksum of an issued key)';

const Settings = Type.Object({
  DATABASE_URL: DatabaseUrl,
  HOST: Host,
  PORT: Port(8081, 'the operator API'),
  GRPC_HOST: Type.String({ default: '127.0.0.1', description: 'the address to serve the data plane on' }),
  GRPC_PORT: Port(8082, 'the data plane'),
  CONTROL_PLANE_TOKEN: Type.Optional(
    Type.String({
      minLength: 16,
      description: 'a secret that the control plane and the data plane share, of at least 16 characters',
    }),
  ),
  WEIGHBRIDGE_BOOTSTRAP_KEY: Type.Optional(Type.String({ description: BOOTSTRAP_KEY_FORM })),
  OPERATOR_KEY_FILE: Type.Optional(Type.String({ description: 'where the first operator key is written' })),
  WEIGHBRIDGE_PEPPER: Type.Optional(
    Type.String({
      minLength: 32,
      description: 'a secret of at least 32 characters, such as `openssl rand -hex 32` makes',
    }),
  ),
  MOCK_VENDOR_URL: Type.Optional(
    Type.String({ pattern: '^https?://', description: 'the base URL of a mock vendor, an http address' }),
  ),
  LOG_LEVEL: LogLevel('info'),
});

export interface ControlPlaneConfig {
  readonly databaseUrl: string;
  readonly http: { readonly host: string; readonly port: number };
  readonly grpc: { readonly host: string; readonly port: number; readonly token: string | undefined };
  readonly bootstrap: { readonly token: string | undefined; readonly file: string | undefined };
  readonly pepper: string | undefined;
  readonly connectors: readonly EnvironmentConnector[];
  readonly credential: (ref: string) => string | undefined;
  readonly logLevel: LogLevelName;
}

/** The control plane's settings, each with its default in docs/configuration.md. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): ControlPlaneConfig {
  const settings = readSettings(Settings, env);
  const given = settings.WEIGHBRIDGE_BOOTSTRAP_KEY;
  if (given !== undefined && !isWellFormedToken(given)) {
    throw new SettingsError(`WEIGHBRIDGE_BOOTSTRAP_KEY is not valid: ${BOOTSTRAP_KEY_FORM}`);
  }
  if (!isLoopback(settings.GRPC_HOST) && !settings.CONTROL_PLANE_TOKEN) {
    throw new SettingsError(
      `CONTROL_PLANE_TOKEN is missing: GRPC_HOST is not a loopback address, and what is served there holds vendors' credentials`,
    );
  }
  return {
    databaseUrl: settings.DATABASE_URL,
    http: { host: settings.HOST, port: settings.PORT },
    grpc: { host: settings.GRPC_HOST, port: settings.GRPC_PORT, token: settings.CONTROL_PLANE_TOKEN },
    bootstrap: {
      token: given,
      file: settings.OPERATOR_KEY_FILE ?? (given === undefined ? '.weighbridge/operator-key' : undefined),
    },
    pepper: settings.WEIGHBRIDGE_PEPPER,
    connectors: environmentConnectors(env, settings.MOCK_VENDOR_URL),
    credential: credentialsIn(env),
    logLevel: settings.LOG_LEVEL,
  };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
