import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  Host,
  LogLevel,
  type LogLevelName,
  NatsStreamSettings,
  NatsUrl,
  Port,
  readSettings,
  SettingsError,
  ShutdownDelayMs,
  ShutdownGraceMs,
  TlsSettings,
  type TracingConfig,
  TracingSettings,
  tlsFiles,
  tracingConfig,
} from '@weighbridge/runtime';
import Type from 'typebox';
import type { DrainLimits } from './attempt/clientConnection.ts';
import type { RetryLimits } from './attempt/failover.ts';
import type { ControlAddress } from './control/controlClient.ts';
import type { ContentOptions } from './observe/contentCapture.ts';
import type { SpoolOptions } from './record/spool/types.ts';
import type { PinSettings } from './routing/pinBucket.ts';
import type { UpstreamOptions } from './upstream/upstreams.ts';

const Milliseconds = (fallback: number, what: string) =>
  Type.Integer({
    minimum: 1,
    maximum: 3_600_000,
    default: fallback,
    description: `${what}, in milliseconds, at most an hour`,
  });

const Settings = Type.Object({
  CONTROL_PLANE_ADDRESS: Type.String({
    default: '127.0.0.1:8082',
    description: "host and port of the control plane's gRPC",
  }),
  ...TlsSettings,
  CONTROL_PLANE_TOKEN: Type.Optional(
    Type.String({ minLength: 16, description: 'the secret that the control plane was given' }),
  ),
  MAX_STALENESS_MS: Type.Integer({
    minimum: 1_000,
    maximum: 86_400_000,
    default: 600_000,
    description:
      'how long the data plane serves what it knows without its control plane, from 1000 to 86400000',
  }),
  STATE_FILE: Type.String({
    default: '.weighbridge/data-plane-state',
    description: 'where the data plane keeps what it needs to start without its control plane',
  }),
  STATE_KEY: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9+/]{43}=$',
      description:
        'the key that seals STATE_FILE, 32 bytes in base64, such as `openssl rand -base64 32` makes',
    }),
  ),
  PROXY_NAME: Type.String({ default: hostname(), description: 'a name of this proxy for people' }),
  SPOOL_DIR: Type.Optional(
    Type.String({
      description: 'the folder for usage that the ledger does not have yet, of this proxy alone',
    }),
  ),
  SPOOL_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 1_073_741_824,
    description: 'what that folder may take, from 1048576 to 1099511627776',
  }),
  SPOOL_SYNC: Type.Union([Type.Literal('process'), Type.Literal('disk')], {
    default: 'process',
    description:
      'what a record survives there, the end of the process or that of the machine: process or disk',
  }),
  BODY_LIMIT_BYTES: Type.Integer({
    minimum: 1_024,
    maximum: 1_073_741_824,
    default: 33_554_432,
    description: 'the largest body that is taken, from 1024 to 1073741824',
  }),
  CORS_ORIGINS: Type.String({
    default: '',
    pattern: '^(\\*|https?://[^\\s,/]+(\\s*,\\s*https?://[^\\s,/]+)*)?$',
    description:
      'the origins whose pages may call from a browser, such as https://app.example, with commas, or *',
  }),
  DRAIN_TIMEOUT_MS: Milliseconds(30_000, 'how long a vendor is listened to whose caller has left'),
  DRAIN_BYTES: Type.Integer({
    minimum: 0,
    maximum: 1_073_741_824,
    default: 1_048_576,
    description: 'how many bytes of a vendor are listened to whose caller has left, up to 1073741824',
  }),
  RESPONSE_CACHE_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 68_719_476_736,
    default: 67_108_864,
    description: 'what the answers may take that are kept in memory, from 1048576 to 68719476736',
  }),
  UPSTREAM_CONNECT_TIMEOUT_MS: Milliseconds(5_000, 'how long connecting to a vendor may take'),
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: Milliseconds(600_000, "how long a vendor's first byte may take"),
  UPSTREAM_CHUNK_TIMEOUT_MS: Milliseconds(300_000, "how long a vendor's next bytes may take"),
  UPSTREAM_MAX_RETRIES: Type.Integer({
    minimum: 0,
    maximum: 10,
    default: 2,
    description: 'how many more attempts a request may get when one fails, from 0 to 10',
  }),
  UPSTREAM_RETRY_WITHIN_MS: Milliseconds(30_000, 'how long after its start a request may be tried again'),
  SESSION_PIN_TTL_MS: Type.Integer({
    minimum: 60_000,
    maximum: 604_800_000,
    default: 3_600_000,
    description: 'how long a session that sends nothing stays where it was, from 60000 to 604800000',
  }),
  SESSION_PINS_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 134_217_728,
    description: 'what the pins of all sessions may take, from 1048576 to 1099511627776',
  }),
  REQUEST_LOG_SUCCESS_RATIO: Type.Number({
    minimum: 0,
    maximum: 1,
    default: 0.01,
    description: 'which part of the requests that succeed is logged, from 0 (none) to 1 (all)',
  }),
  TRACE_CONTENT: Type.Boolean({
    default: false,
    description: 'whether prompts and answers are sent to the collector of traces: true or false',
  }),
  TRACE_CONTENT_MAX_LENGTH: Type.Integer({
    minimum: 100,
    maximum: 16_384,
    default: 4_096,
    description: 'how many characters of each, from 100 to 16384',
  }),
  NATS_BUCKET_REPLICAS: Type.Integer({
    minimum: 1,
    maximum: 5,
    default: 1,
    description: 'how many NATS servers keep the session pins, from 1 to 5',
  }),
});

const ProcessSettings = Type.Object({
  NATS_URL: NatsUrl,
  ...NatsStreamSettings,
  HOST: Host,
  PORT: Port(8080, 'inference'),
  PROCESSES: Type.Integer({
    minimum: 1,
    maximum: 256,
    default: 1,
    description: 'how many processes share the port, from 1 to 256: one for each core that it may use',
  }),
  SHUTDOWN_DELAY_MS: ShutdownDelayMs,
  SHUTDOWN_GRACE_MS: ShutdownGraceMs(30_000),
  ...TracingSettings,
  LOG_LEVEL: LogLevel('info'),
  RESPONSE_CACHE_SHARED: Type.Boolean({
    default: false,
    description: 'whether the proxies share the answers that are kept, in NATS: true or false',
  }),
  RESPONSE_CACHE_KEY: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9+/]{43}=$',
      description:
        'the key that seals shared answers, 32 bytes in base64, such as `openssl rand -base64 32` makes; the same for all proxies',
    }),
  ),
  RESPONSE_CACHE_SHARED_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 268_435_456,
    description: 'what shared answers may take in NATS, from 1048576 to 1099511627776',
  }),
});

/** What the data plane does, in whichever process it runs. */
export interface DataPlaneConfig {
  readonly controlPlane: ControlAddress;
  /** Undefined: nothing is kept. */
  readonly state: { readonly file: string; readonly key: Buffer } | undefined;
  readonly proxy: { readonly name: string; readonly maxStalenessMs: number };
  readonly spool: Pick<SpoolOptions, 'dir' | 'maxBytes' | 'sync'>;
  readonly bodyLimitBytes: number;
  readonly corsOrigins: readonly string[];
  readonly drainLimits: DrainLimits;
  readonly responseCacheBytes: number;
  readonly upstream: UpstreamOptions;
  readonly retries: RetryLimits;
  readonly pins: PinSettings;
  /** Undefined: traces say nothing of prompts and answers. */
  readonly content: ContentOptions | undefined;
  readonly requestLog: { readonly successRatio: number };
}

/** What it needs besides as a process of its own. */
export interface ProcessConfig {
  readonly natsUrl: string;
  readonly natsStream: { readonly replicas: number; readonly maxBytes: number };
  readonly http: { readonly host: string; readonly port: number };
  readonly processes: number;
  readonly shutdown: { readonly delayMs: number; readonly graceMs: number };
  /** Undefined: nothing is traced. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
  /** Undefined: each proxy keeps its own answers alone. */
  readonly sharedCache: { readonly sealingKey: Buffer; readonly maxBytes: number } | undefined;
}

/** The data plane's settings, each with its default in docs/configuration.md. */
export function loadConfig(env: Environment): DataPlaneConfig {
  const settings = readSettings(Settings, env);
  return {
    controlPlane: {
      address: settings.CONTROL_PLANE_ADDRESS,
      token: settings.CONTROL_PLANE_TOKEN,
      tls: tlsFiles(settings),
    },
    state: settings.STATE_KEY
      ? { file: settings.STATE_FILE, key: Buffer.from(settings.STATE_KEY, 'base64') }
      : undefined,
    proxy: { name: settings.PROXY_NAME, maxStalenessMs: settings.MAX_STALENESS_MS },
    spool: {
      dir: settings.SPOOL_DIR ?? join('.weighbridge', 'spools', folderName(settings.PROXY_NAME)),
      maxBytes: settings.SPOOL_MAX_BYTES,
      sync: settings.SPOOL_SYNC,
    },
    bodyLimitBytes: settings.BODY_LIMIT_BYTES,
    corsOrigins: settings.CORS_ORIGINS.split(',')
      .map((origin) => origin.trim())
      .filter((origin) => origin !== ''),
    drainLimits: {
      stalledMs: settings.UPSTREAM_CHUNK_TIMEOUT_MS,
      drainMs: settings.DRAIN_TIMEOUT_MS,
      drainBytes: settings.DRAIN_BYTES,
    },
    responseCacheBytes: settings.RESPONSE_CACHE_MAX_BYTES,
    upstream: {
      connectTimeoutMs: settings.UPSTREAM_CONNECT_TIMEOUT_MS,
      firstByteTimeoutMs: settings.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      chunkTimeoutMs: settings.UPSTREAM_CHUNK_TIMEOUT_MS,
    },
    retries: {
      maxRetries: settings.UPSTREAM_MAX_RETRIES,
      retryWithinMs: settings.UPSTREAM_RETRY_WITHIN_MS,
    },
    content: settings.TRACE_CONTENT ? tracedContent(env, settings.TRACE_CONTENT_MAX_LENGTH) : undefined,
    requestLog: { successRatio: settings.REQUEST_LOG_SUCCESS_RATIO },
    pins: {
      ttlMs: settings.SESSION_PIN_TTL_MS,
      maxBytes: settings.SESSION_PINS_MAX_BYTES,
      replicas: settings.NATS_BUCKET_REPLICAS,
    },
  };
}

export function loadProcessConfig(env: Environment): ProcessConfig {
  const settings = readSettings(ProcessSettings, env);
  return {
    natsUrl: settings.NATS_URL,
    natsStream: { replicas: settings.NATS_STREAM_REPLICAS, maxBytes: settings.NATS_STREAM_MAX_BYTES },
    http: { host: settings.HOST, port: settings.PORT },
    processes: settings.PROCESSES,
    shutdown: { delayMs: settings.SHUTDOWN_DELAY_MS, graceMs: settings.SHUTDOWN_GRACE_MS },
    tracing: tracingConfig(settings, 'weighbridge-data-plane'),
    logLevel: settings.LOG_LEVEL,
    sharedCache: settings.RESPONSE_CACHE_SHARED
      ? {
          sealingKey: sealingKey(settings.RESPONSE_CACHE_KEY),
          maxBytes: settings.RESPONSE_CACHE_SHARED_MAX_BYTES,
        }
      : undefined,
  };
}

/** Whoever asks for it expects to find it somewhere. */
function tracedContent(env: Environment, maxLength: number): ContentOptions {
  if (env.OTEL_EXPORTER_OTLP_ENDPOINT) return { maxLength };
  throw new SettingsError(
    'OTEL_EXPORTER_OTLP_ENDPOINT is missing: with TRACE_CONTENT, prompts and answers go to the collector that it names',
  );
}

function sealingKey(text: string | undefined): Buffer {
  if (text) return Buffer.from(text, 'base64');
  throw new SettingsError(
    'RESPONSE_CACHE_KEY is missing: with RESPONSE_CACHE_SHARED, answers lie in NATS, and only sealed. Make one for all proxies by `openssl rand -base64 32`',
  );
}

/** What one of several processes has for its own, each thing named after what a single one would have. */
export function environmentOf(env: Environment, index: number): Record<string, string> {
  const settings = readSettings(Settings, env);
  const name = `${settings.PROXY_NAME}-${index + 1}`;
  const { dir } = loadConfig(env).spool;
  return {
    PROXY_NAME: name,
    // Side by side: where one is gone for good, another takes over what it left.
    SPOOL_DIR: `${dir}-${index + 1}`,
    STATE_FILE: `${settings.STATE_FILE}-${index + 1}`,
  };
}

/** A name for people may be no name for a folder. */
function folderName(name: string): string {
  return name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_');
}

type Environment = Readonly<Record<string, string | undefined>>;
