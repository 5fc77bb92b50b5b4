import { normalize } from 'node:path';
import type { TlsFiles } from '@weighbridge/contracts';
import type { PoolSizes } from '@weighbridge/database';
import { isWellFormedToken } from '@weighbridge/domain';
import {
  type ArchiveConfig,
  ArchiveSettings,
  archiveConfig,
  ControlPlaneToken,
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
import Type, { type Static } from 'typebox';
import { OidcEnvironment, type OidcSettings, oidcSettings } from './features/access/oidc/oidc.ts';
import { type FeedSource, feedSource } from './features/catalogFeed/fetchFeed.ts';
import { credentialHosts } from './features/connectors/credentialHosts.ts';
import { type Credentials, createCredentials } from './features/connectors/credentials.ts';
import {
  type EnvironmentConnector,
  environmentConnectors,
} from './features/connectors/environmentConnectors.ts';
import { hostList, type UpstreamHosts, upstreamHosts } from './features/connectors/upstreamHosts.ts';
import type { PepperSettings } from './features/keys/peppers.ts';
import { createSealer, KEK_BYTES } from './sealing/envelope.ts';

const BOOTSTRAP_KEY_FORM =
  'sk-svc- followed by at least 32 of A-Z, a-z, 0-9, _ and -; exactly 49 must include the checksum of an issued key';

const KEK_FORM = '32 bytes in base64, such as the output of `openssl rand -base64 32`';

function Connections(fallback: number, use: string, minimum = 1) {
  return Type.Integer({
    default: fallback,
    minimum,
    maximum: 200,
    description: `the most connections to Postgres for ${use}, from ${minimum} to 200`,
  });
}

const Settings = Type.Object({
  DATABASE_URL: DatabaseUrl,
  DATABASE_WRITE_CONNECTIONS: Connections(6, 'writes', 2),
  DATABASE_LEASE_CONNECTIONS: Connections(6, 'leases', 2),
  DATABASE_LOOKUP_CONNECTIONS: Connections(3, 'look-ups of keys'),
  DATABASE_REPORT_CONNECTIONS: Connections(3, 'reports'),
  MIGRATE_ON_START: Type.Boolean({
    default: true,
    description: 'true to migrate the database on start, false if `weighbridge migrate` runs before',
  }),
  HOST: Host,
  PORT: Port(8081, 'the operator API'),
  ...MetricsSettings,
  GRPC_HOST: Type.String({ default: '127.0.0.1', description: 'the address to listen on for proxies' }),
  GRPC_PORT: Port(8082, 'proxies'),
  ...TlsSettings,
  GRPC_PLAINTEXT: Type.Boolean({
    default: false,
    description: 'true to serve proxies without TLS on an address that is not loopback',
  }),
  CONTROL_PLANE_TOKEN: ControlPlaneToken,
  ACCEPT_UNSIGNED_CALLS: Type.Boolean({
    default: false,
    description: 'true while proxies that were rolled back to release 0.1.0 use spools with a key',
  }),
  WEIGHBRIDGE_BOOTSTRAP_KEY: Type.Optional(Type.String({ description: BOOTSTRAP_KEY_FORM })),
  OPERATOR_KEY_FILE: Type.Optional(
    Type.String({ description: 'the file that the first operator key is written to' }),
  ),
  WEIGHBRIDGE_PEPPER: Type.Optional(
    Type.String({
      minLength: 32,
      description: 'a secret of at least 32 characters, such as the output of `openssl rand -hex 32`',
    }),
  ),
  WEIGHBRIDGE_PREVIOUS_PEPPERS: Type.Optional(
    Type.String({
      minLength: 32,
      description: 'peppers separated by commas, each of at least 32 characters',
    }),
  ),
  MOCK_VENDOR_URL: Type.Optional(
    Type.String({ pattern: '^https?://', description: 'the base URL of a mock vendor' }),
  ),
  WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Type.Optional(Type.String({ description: KEK_FORM })),
  WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS: Type.Optional(
    Type.String({ description: `keys separated by commas, each ${KEK_FORM}` }),
  ),
  ALLOWED_UPSTREAM_HOSTS: Type.String({
    default: '',
    description: 'hosts separated by commas, such as gpu.internal:8000, *.models.local, 10.0.0.7',
  }),
  ALLOWED_WEBHOOK_HOSTS: Type.String({
    default: '',
    description: 'hosts separated by commas, such as alerts.internal:8080, *.hooks.local, 10.0.0.7',
  }),
  PUBLIC_URL: Type.Optional(
    Type.String({
      pattern: '^https?://[^\\s?#]+$',
      description: 'the address at which people reach the operator API, such as https://llm.example.com',
    }),
  ),
  CATALOG_FEED_URL: Type.Optional(
    Type.String({
      description:
        'the https:// URL of a list of prices that is read daily, such as https://models.dev/api.json',
    }),
  ),
  CREDENTIAL_REF_HOSTS: Type.Optional(
    Type.String({
      description:
        'references with the hosts that they may go to, such as env:GROQ_TEAM_KEY=api.groq.com;file:/run/secrets/gpu=gpu.internal:8000,*.models.local',
    }),
  ),
  CREDENTIAL_FILE_DIRS: Type.String({
    default: '/run/secrets,/etc/weighbridge',
    pattern: '^/[^,]*(,/[^,]*)*$',
    description: 'absolute paths of folders, separated by commas',
  }),
  MAX_KEYS_PER_PRINCIPAL: Type.Integer({
    default: 1_000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'the most keys that a principal can issue without an operator; revoked ones do not count',
  }),
  ...ArchiveSettings,
  ...HttpLimitSettings,
  SHUTDOWN_DELAY_MS: ShutdownDelayMs,
  ...OidcEnvironment,
  ...TracingSettings,
  LOG_LEVEL: LogLevel('info'),
});

type Environment = Readonly<Record<string, string | undefined>>;

export interface ControlPlaneConfig {
  readonly databaseUrl: string;
  /** The connections of each pool. */
  readonly pools: PoolSizes;
  /** False: it starts only if the schema is that of its release. */
  readonly migrateOnStart: boolean;
  readonly http: HttpLimits & { readonly host: string; readonly port: number };
  /** Undefined: metrics are not served. */
  readonly metrics: MetricsAddress | undefined;
  readonly grpc: {
    readonly host: string;
    readonly port: number;
    readonly token: string;
    /** Undefined: plain text. */
    readonly tls: TlsFiles | undefined;
    readonly acceptsUnsigned: boolean;
  };
  readonly bootstrap: { readonly token: string | undefined; readonly file: string | undefined };
  readonly peppers: PepperSettings;
  readonly connectors: readonly EnvironmentConnector[];
  readonly credentials: Credentials;
  readonly upstreamHosts: UpstreamHosts;
  /** The hosts that webhooks may use beyond https on the public internet. */
  readonly webhookHosts: UpstreamHosts;
  /** Where people reach the operator API, without a trailing slash. Undefined: links in messages are paths. */
  readonly publicUrl: string | undefined;
  /** Undefined: prices change by releases and operators only, and nothing is fetched. */
  readonly feedSource: FeedSource | undefined;
  /** How many keys that are not revoked a principal may have before only operators can issue it more. */
  readonly maxKeysPerPrincipal: number;
  /** Undefined: all of the ledger that reports read is in Postgres. */
  readonly archive: ArchiveConfig | undefined;
  /** Undefined: people can only use keys. */
  readonly oidc: OidcSettings | undefined;
  /** How long it still accepts requests after a signal to stop. */
  readonly shutdownDelayMs: number;
  /** Undefined: nothing is traced. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
}

/** The settings of the control plane. docs/configuration.md lists their defaults. */
export function loadConfig(env: Environment): ControlPlaneConfig {
  const settings = readSettings(Settings, env);
  const hosts = upstreamHosts(settings.ALLOWED_UPSTREAM_HOSTS);
  const publicUrl = settings.PUBLIC_URL?.replace(/\/+$/, '');
  return {
    databaseUrl: settings.DATABASE_URL,
    pools: {
      writes: settings.DATABASE_WRITE_CONNECTIONS,
      leases: settings.DATABASE_LEASE_CONNECTIONS,
      lookups: settings.DATABASE_LOOKUP_CONNECTIONS,
      reports: settings.DATABASE_REPORT_CONNECTIONS,
    },
    migrateOnStart: settings.MIGRATE_ON_START,
    http: { host: settings.HOST, port: settings.PORT, ...httpLimits(settings) },
    metrics: metricsAddress(settings, { PORT: settings.PORT, GRPC_PORT: settings.GRPC_PORT }),
    grpc: grpcConfig(settings),
    bootstrap: bootstrapConfig(settings),
    peppers: {
      current: settings.WEIGHBRIDGE_PEPPER,
      others: previousPeppers(settings.WEIGHBRIDGE_PREVIOUS_PEPPERS),
    },
    connectors: environmentConnectors(env, settings.MOCK_VENDOR_URL),
    credentials: credentialsConfig(env, settings),
    upstreamHosts: hosts,
    webhookHosts: hostList('ALLOWED_WEBHOOK_HOSTS', settings.ALLOWED_WEBHOOK_HOSTS),
    publicUrl,
    feedSource: feedSource(settings.CATALOG_FEED_URL, hosts),
    maxKeysPerPrincipal: settings.MAX_KEYS_PER_PRINCIPAL,
    archive: archiveConfig(settings),
    shutdownDelayMs: settings.SHUTDOWN_DELAY_MS,
    oidc: oidcSettings(settings, publicUrl),
    tracing: tracingConfig(settings, 'weighbridge-control-plane'),
    logLevel: settings.LOG_LEVEL,
  };
}

type Settings = Static<typeof Settings>;

function bootstrapConfig(settings: Settings): ControlPlaneConfig['bootstrap'] {
  const token = settings.WEIGHBRIDGE_BOOTSTRAP_KEY;
  if (token !== undefined && !isWellFormedToken(token)) {
    throw new SettingsError(`WEIGHBRIDGE_BOOTSTRAP_KEY is not valid: ${BOOTSTRAP_KEY_FORM}`);
  }
  const defaultFile = token === undefined ? '.weighbridge/operator-key' : undefined;
  return { token, file: settings.OPERATOR_KEY_FILE ?? defaultFile };
}

function grpcConfig(settings: Settings): ControlPlaneConfig['grpc'] {
  const tls = tlsFiles(settings);
  if (!tls && !isLoopback(settings.GRPC_HOST) && !settings.GRPC_PLAINTEXT) {
    throw new SettingsError(
      "CONTROL_TLS_CERTIFICATE_FILE is missing: GRPC_HOST is not a loopback address, and proxies receive vendors' credentials there. To serve them without TLS, set GRPC_PLAINTEXT=true",
    );
  }
  return {
    host: settings.GRPC_HOST,
    port: settings.GRPC_PORT,
    token: settings.CONTROL_PLANE_TOKEN,
    tls,
    acceptsUnsigned: settings.ACCEPT_UNSIGNED_CALLS,
  };
}

function credentialsConfig(env: Environment, settings: Settings): Credentials {
  const [current] = keks('WEIGHBRIDGE_KEY_ENCRYPTION_KEY', settings.WEIGHBRIDGE_KEY_ENCRYPTION_KEY);
  const previous = keks(
    'WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS',
    settings.WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS,
  );
  return createCredentials({
    env,
    fileDirs: settings.CREDENTIAL_FILE_DIRS.split(',').map((dir) => normalize(dir)),
    sealer: createSealer({ current, previous }),
    hosts: credentialHosts(settings.CREDENTIAL_REF_HOSTS, env),
  });
}

/** A pepper may contain a comma, so the whole text is one candidate. Wrong candidates do no harm. */
function previousPeppers(text = ''): string[] {
  return [...new Set([text, ...text.split(',').map((part) => part.trim())])].filter((part) => part !== '');
}

/** The key-encryption keys of a setting. */
function keks(setting: string, text = ''): Buffer[] {
  const parts = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return parts.map((part) => {
    const bytes = Buffer.from(part, 'base64');
    if (bytes.length === KEK_BYTES && /^[A-Za-z0-9+/]{43}=$/.test(part)) return bytes;
    throw new SettingsError(`${setting} is not valid: ${KEK_FORM}`);
  });
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
