import { normalize } from 'node:path';
import type { TlsFiles } from '@weighbridge/contracts';
import { isWellFormedToken } from '@weighbridge/domain';
import {
  DatabaseUrl,
  Host,
  LogLevel,
  type LogLevelName,
  Port,
  readSettings,
  SettingsError,
  ShutdownDelayMs,
  TlsSettings,
  type TracingConfig,
  TracingSettings,
  tlsFiles,
  tracingConfig,
} from '@weighbridge/runtime';
import Type from 'typebox';
import { OidcEnvironment, type OidcSettings, oidcSettings } from './features/access/oidc/oidc.ts';
import { type Credentials, createCredentials } from './features/connectors/credentials.ts';
import {
  type EnvironmentConnector,
  environmentConnectors,
} from './features/connectors/environmentConnectors.ts';
import { type UpstreamHosts, upstreamHosts } from './features/connectors/upstreamHosts.ts';
import type { PepperSettings } from './features/keys/peppers.ts';
import { createSealer, KEK_BYTES } from './sealing/envelope.ts';

const BOOTSTRAP_KEY_FORM =
  'sk-svc- and at least 32 of A-Z, a-z, 0-9, _ and - (49 of them only with the checksum of an issued key)';

const KEK_FORM = '32 bytes as base64, such as `openssl rand -base64 32` prints';

const Settings = Type.Object({
  DATABASE_URL: DatabaseUrl,
  MIGRATE_ON_START: Type.Boolean({
    default: true,
    description:
      'true to migrate the database at the start, false where `weighbridge migrate` does it before',
  }),
  HOST: Host,
  PORT: Port(8081, 'the operator API'),
  GRPC_HOST: Type.String({ default: '127.0.0.1', description: 'the address to serve the data plane on' }),
  GRPC_PORT: Port(8082, 'the data plane'),
  ...TlsSettings,
  GRPC_PLAINTEXT: Type.Boolean({
    default: false,
    description: 'true to serve the data plane in plain text beyond this machine',
  }),
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
  WEIGHBRIDGE_PREVIOUS_PEPPERS: Type.Optional(
    Type.String({
      minLength: 32,
      description: 'one pepper or several with commas, each of at least 32 characters',
    }),
  ),
  MOCK_VENDOR_URL: Type.Optional(
    Type.String({ pattern: '^https?://', description: 'the base URL of a mock vendor, an http address' }),
  ),
  WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Type.Optional(Type.String({ description: KEK_FORM })),
  WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS: Type.Optional(
    Type.String({ description: `several with commas, each ${KEK_FORM}` }),
  ),
  ALLOWED_UPSTREAM_HOSTS: Type.String({
    default: '',
    description: 'hosts with commas, such as gpu.internal:8000, *.models.local, 10.0.0.7',
  }),
  CREDENTIAL_FILE_DIRS: Type.String({
    default: '/run/secrets,/etc/weighbridge',
    pattern: '^/[^,]*(,/[^,]*)*$',
    description: 'absolute paths of folders, several with commas',
  }),
  SHUTDOWN_DELAY_MS: ShutdownDelayMs,
  ...OidcEnvironment,
  ...TracingSettings,
  LOG_LEVEL: LogLevel('info'),
});

export interface ControlPlaneConfig {
  readonly databaseUrl: string;
  /** False: it starts only on a schema of its release. */
  readonly migrateOnStart: boolean;
  readonly http: { readonly host: string; readonly port: number };
  readonly grpc: {
    readonly host: string;
    readonly port: number;
    readonly token: string | undefined;
    /** Undefined: plain text. */
    readonly tls: TlsFiles | undefined;
  };
  readonly bootstrap: { readonly token: string | undefined; readonly file: string | undefined };
  readonly peppers: PepperSettings;
  readonly connectors: readonly EnvironmentConnector[];
  readonly credentials: Credentials;
  readonly upstreamHosts: UpstreamHosts;
  /** Undefined: operators come with keys alone. */
  readonly oidc: OidcSettings | undefined;
  /** How long it still takes requests when it is told to stop. */
  readonly shutdownDelayMs: number;
  /** Undefined: nothing is traced. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
}

/** The control plane's settings, each with its default in docs/configuration.md. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): ControlPlaneConfig {
  const settings = readSettings(Settings, env);
  const given = settings.WEIGHBRIDGE_BOOTSTRAP_KEY;
  if (given !== undefined && !isWellFormedToken(given)) {
    throw new SettingsError(`WEIGHBRIDGE_BOOTSTRAP_KEY is not valid: ${BOOTSTRAP_KEY_FORM}`);
  }
  const tls = tlsFiles(settings);
  const isOpen = !tls && !isLoopback(settings.GRPC_HOST);
  if (isOpen && !settings.GRPC_PLAINTEXT) {
    throw new SettingsError(
      "CONTROL_TLS_CERTIFICATE_FILE is missing: GRPC_HOST is not a loopback address, and what is served there holds vendors' credentials. GRPC_PLAINTEXT=true serves it in plain text all the same",
    );
  }
  if (isOpen && !settings.CONTROL_PLANE_TOKEN) {
    throw new SettingsError(
      'CONTROL_PLANE_TOKEN is missing: without TLS, nothing else tells who connects to GRPC_HOST',
    );
  }
  return {
    databaseUrl: settings.DATABASE_URL,
    migrateOnStart: settings.MIGRATE_ON_START,
    http: { host: settings.HOST, port: settings.PORT },
    grpc: {
      host: settings.GRPC_HOST,
      port: settings.GRPC_PORT,
      token: settings.CONTROL_PLANE_TOKEN,
      tls,
    },
    bootstrap: {
      token: given,
      file: settings.OPERATOR_KEY_FILE ?? (given === undefined ? '.weighbridge/operator-key' : undefined),
    },
    peppers: {
      current: settings.WEIGHBRIDGE_PEPPER,
      others: previousPeppers(settings.WEIGHBRIDGE_PREVIOUS_PEPPERS),
    },
    connectors: environmentConnectors(env, settings.MOCK_VENDOR_URL),
    credentials: createCredentials({
      env,
      fileDirs: settings.CREDENTIAL_FILE_DIRS.split(',').map((dir) => normalize(dir)),
      sealer: createSealer({
        current: keks('WEIGHBRIDGE_KEY_ENCRYPTION_KEY', settings.WEIGHBRIDGE_KEY_ENCRYPTION_KEY)[0],
        previous: keks(
          'WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS',
          settings.WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS,
        ),
      }),
    }),
    upstreamHosts: upstreamHosts(settings.ALLOWED_UPSTREAM_HOSTS),
    shutdownDelayMs: settings.SHUTDOWN_DELAY_MS,
    oidc: oidcSettings(settings),
    tracing: tracingConfig(settings, 'weighbridge-control-plane'),
    logLevel: settings.LOG_LEVEL,
  };
}

/** A pepper may hold a comma itself: what is no pepper harms nothing. */
function previousPeppers(text = ''): string[] {
  return [...new Set([text, ...text.split(',').map((part) => part.trim())])].filter((part) => part !== '');
}

function keks(setting: string, text = ''): Buffer[] {
  const given = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return given.map((part) => {
    const bytes = Buffer.from(part, 'base64');
    if (bytes.length === KEK_BYTES && /^[A-Za-z0-9+/]{43}=$/.test(part)) return bytes;
    throw new SettingsError(`${setting} is not valid: ${KEK_FORM}`);
  });
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
