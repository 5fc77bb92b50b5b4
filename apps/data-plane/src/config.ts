import { join } from 'node:path';
import {
  type HttpLimits,
  httpLimits,
  type LogLevelName,
  type MetricsAddress,
  memoryLimitBytes,
  metricsAddress,
  readSettings,
  SettingsError,
  type TracingConfig,
  tlsFiles,
  tracingConfig,
} from '@weighbridge/runtime';
import type { SpoolOptions } from '@weighbridge/usage/recording';
import type { DrainLimits } from './attempt/clientConnection.ts';
import type { RetryLimits } from './attempt/failover.ts';
import type { ControlAddress } from './control/controlClient.ts';
import type { ContentOptions } from './observe/contentCapture.ts';
import type { PinSettings } from './routing/pinBucket.ts';
import {
  ControlPlaneSettings,
  DataPlaneSettings,
  MIN_MEMORY_BUDGET_BYTES,
  ProcessSettings,
  TokenSettings,
} from './settings.ts';
import type { UpstreamOptions } from './upstream/upstreams.ts';

const MAX_PORT = 65_535;

/** The configuration of a data plane, in whichever process it runs. */
export interface DataPlaneConfig {
  readonly controlPlane: ControlAddress;
  /** Undefined: the state is not stored. */
  readonly state: { readonly file: string; readonly key: Buffer } | undefined;
  readonly proxy: { readonly name: string; readonly maxStalenessMs: number };
  readonly spool: Pick<SpoolOptions, 'dir' | 'maxBytes' | 'sync' | 'shards'>;
  /** For request bodies, held responses and the response cache. */
  readonly memoryBudgetBytes: number;
  /** For cached keys with their indexes. */
  readonly keyCacheBytes: number;
  readonly bodyLimitBytes: number;
  readonly corsOrigins: readonly string[];
  readonly drainLimits: DrainLimits;
  readonly responseCacheBytes: number;
  readonly upstream: UpstreamOptions;
  readonly retries: RetryLimits;
  readonly pins: PinSettings;
  /** Undefined: traces contain no prompts and responses. */
  readonly content: ContentOptions | undefined;
  readonly requestLog: { readonly successRatio: number };
  /** What the deployment says of this proxy's own identity at Azure, by the variables of Microsoft's libraries. */
  readonly azureEnvironment: Environment;
}

/** The further configuration of a data plane that is its own process. */
export interface ProcessConfig {
  readonly natsUrl: string;
  readonly natsStream: { readonly replicas: number; readonly maxBytes: number };
  readonly http: HttpLimits & { readonly host: string; readonly port: number };
  /** Undefined: metrics are not served. */
  readonly metrics: MetricsAddress | undefined;
  readonly processes: number;
  readonly shutdown: { readonly delayMs: number; readonly graceMs: number };
  /** Undefined: tracing is off. */
  readonly tracing: TracingConfig | undefined;
  readonly logLevel: LogLevelName;
  /** Undefined: proxies do not share cached responses. */
  readonly sharedCache: { readonly sealingKey: Buffer; readonly maxBytes: number } | undefined;
}

/** Throws `SettingsError` if a setting is invalid. */
export function loadConfig(env: Environment): DataPlaneConfig {
  const { CONTROL_PLANE_TOKEN: token } = readSettings(TokenSettings, env);
  return { controlPlane: { ...loadControlAddress(env), token }, ...loadLocalConfig(env) };
}

/** Where the control plane is. A look at it needs no token. */
export function loadControlAddress(env: Environment): Omit<ControlAddress, 'token'> {
  const settings = readSettings(ControlPlaneSettings, env);
  return { address: settings.CONTROL_PLANE_ADDRESS, tls: tlsFiles(settings) };
}

/** What a data plane does without its control plane. */
export function loadLocalConfig(env: Environment): Omit<DataPlaneConfig, 'controlPlane'> {
  const settings = readSettings(DataPlaneSettings, env);
  return {
    state: settings.STATE_KEY
      ? { file: settings.STATE_FILE, key: Buffer.from(settings.STATE_KEY, 'base64') }
      : undefined,
    proxy: { name: settings.PROXY_NAME, maxStalenessMs: settings.MAX_STALENESS_MS },
    spool: {
      dir: settings.SPOOL_DIR ?? join('.weighbridge', 'spools', folderName(settings.PROXY_NAME)),
      maxBytes: settings.SPOOL_MAX_BYTES,
      sync: settings.SPOOL_SYNC,
      shards: settings.USAGE_SHARDS,
    },
    memoryBudgetBytes: settings.MEMORY_BUDGET_BYTES ?? defaultMemoryBudget(),
    keyCacheBytes: settings.KEY_CACHE_MAX_BYTES,
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
    azureEnvironment: Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith('AZURE_'))),
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
    http: { host: settings.HOST, port: settings.PORT, ...httpLimits(settings) },
    metrics: metricsAddress(settings, { PORT: settings.PORT }),
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

/** Captured content without a collector would go nowhere. */
function tracedContent(env: Environment, maxLength: number): ContentOptions {
  if (env.OTEL_EXPORTER_OTLP_ENDPOINT) return { maxLength };
  throw new SettingsError(
    'OTEL_EXPORTER_OTLP_ENDPOINT is missing: TRACE_CONTENT sends prompts and responses to that collector',
  );
}

function sealingKey(text: string | undefined): Buffer {
  if (text) return Buffer.from(text, 'base64');
  throw new SettingsError(
    'RESPONSE_CACHE_KEY is missing: RESPONSE_CACHE_SHARED stores responses in NATS, encrypted. Create one key for all proxies with `openssl rand -base64 32`',
  );
}

/** The rest is for what is not counted: code, keys, copies in passing, and garbage that is not collected yet. */
function defaultMemoryBudget(): number {
  return Math.max(MIN_MEMORY_BUDGET_BYTES, Math.floor(memoryLimitBytes() / 3));
}

/** The settings that differ between the processes of one proxy, derived from those of a single process. */
export function environmentOf(env: Environment, index: number): Record<string, string> {
  const settings = readSettings(DataPlaneSettings, env);
  const name = `${settings.PROXY_NAME}-${index + 1}`;
  const {
    spool: { dir },
    memoryBudgetBytes,
  } = loadLocalConfig(env);
  const { processes, metrics, http } = loadProcessConfig(env);
  const share = Math.floor(memoryBudgetBytes / processes);
  return {
    PROXY_NAME: name,
    // In one parent folder, so that another process adopts the spool of one that does not come back.
    SPOOL_DIR: `${dir}-${index + 1}`,
    STATE_FILE: `${settings.STATE_FILE}-${index + 1}`,
    MEMORY_BUDGET_BYTES: String(Math.max(MIN_MEMORY_BUDGET_BYTES, share)),
    // One scrape reads one process.
    ...(metrics && { METRICS_PORT: String(nextPort(metrics, index, http.port)) }),
  };
}

function nextPort({ host, port }: MetricsAddress, index: number, inferencePort: number): number {
  const METRICS_PORT = port === 0 ? 0 : port + index;
  if (METRICS_PORT > MAX_PORT) {
    throw new SettingsError(
      `METRICS_PORT is not valid: with PROCESSES, each process needs its own port, counted from it, and ${METRICS_PORT} is none`,
    );
  }
  metricsAddress({ METRICS_PORT, METRICS_HOST: host }, { PORT: inferencePort });
  return METRICS_PORT;
}

/** A display name may contain characters that a folder name can't. */
function folderName(name: string): string {
  return name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_');
}

type Environment = Readonly<Record<string, string | undefined>>;
