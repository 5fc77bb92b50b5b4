import { hostname } from 'node:os';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import {
  ControlPlaneToken,
  Host,
  HttpLimitSettings,
  LogLevel,
  MetricsSettings,
  NatsStreamSettings,
  NatsUrl,
  Port,
  ShutdownDelayMs,
  ShutdownGraceMs,
  TlsSettings,
  TracingSettings,
} from '@weighbridge/runtime';
import Type from 'typebox';

const Milliseconds = (fallback: number, description: string) =>
  Type.Integer({
    minimum: 1,
    maximum: 3_600_000,
    default: fallback,
    description: `${description}, in milliseconds, from 1 to 3600000`,
  });

export const MIN_MEMORY_BUDGET_BYTES = 1_048_576;

/** Where a data plane finds its control plane. */
export const ControlPlaneSettings = Type.Object({
  CONTROL_PLANE_ADDRESS: Type.String({
    default: '127.0.0.1:8082',
    description: "host and port of the control plane's gRPC service",
  }),
  ...TlsSettings,
});

/** The secret that authenticates a data plane at its control plane. */
export const TokenSettings = Type.Object({
  CONTROL_PLANE_TOKEN: ControlPlaneToken,
});

/** Further settings of a data plane, in whichever process it runs. docs/configuration.md lists them all. */
export const DataPlaneSettings = Type.Object({
  MAX_STALENESS_MS: Type.Integer({
    minimum: 1_000,
    maximum: 86_400_000,
    default: 600_000,
    description:
      'milliseconds that the data plane serves without hearing from its control plane, from 1000 to 86400000',
  }),
  STATE_FILE: Type.String({
    default: '.weighbridge/data-plane-state',
    description: 'the file with the state that lets the data plane start without its control plane',
  }),
  STATE_KEY: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9+/]{43}=$',
      description: 'the key that encrypts STATE_FILE: 32 bytes in base64, as from `openssl rand -base64 32`',
    }),
  ),
  PROXY_NAME: Type.String({ default: hostname(), description: 'the display name of this proxy' }),
  SPOOL_DIR: Type.Optional(
    Type.String({
      description: 'the folder for usage that the ledger does not have yet, used by this proxy alone',
    }),
  ),
  SPOOL_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 1_073_741_824,
    description: 'the most bytes of usage in SPOOL_DIR, from 1048576 to 1099511627776',
  }),
  SPOOL_SYNC: Type.Union([Type.Literal('process'), Type.Literal('disk')], {
    default: 'process',
    description:
      'process: a record survives a crash of the process; disk: also of the machine (fsync, slower)',
  }),
  USAGE_SHARDS: Type.Integer({
    minimum: USAGE_SHARDS,
    maximum: MAX_USAGE_SHARDS,
    default: USAGE_SHARDS,
    description: `how many shards of the usage stream this proxy writes to, from ${USAGE_SHARDS} to ${MAX_USAGE_SHARDS}`,
  }),
  MEMORY_BUDGET_BYTES: Type.Optional(
    Type.Integer({
      minimum: MIN_MEMORY_BUDGET_BYTES,
      maximum: 1_099_511_627_776,
      description:
        'the most bytes of request bodies, held responses and cached responses, from 1048576 to 1099511627776',
    }),
  ),
  KEY_CACHE_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 68_719_476_736,
    default: 134_217_728,
    description: 'the most bytes of cached keys with their indexes, from 1048576 to 68719476736',
  }),
  BODY_LIMIT_BYTES: Type.Integer({
    minimum: 1_024,
    maximum: 1_073_741_824,
    default: 33_554_432,
    description: 'the largest request body in bytes, from 1024 to 1073741824',
  }),
  CORS_ORIGINS: Type.String({
    default: '',
    pattern: '^(\\*|https?://[^\\s,/]+(\\s*,\\s*https?://[^\\s,/]+)*)?$',
    description:
      'origins whose pages may call from a browser, such as https://app.example, separated by commas; or *',
  }),
  DRAIN_TIMEOUT_MS: Milliseconds(
    30_000,
    "how long a vendor's response is read after the client disconnected",
  ),
  DRAIN_BYTES: Type.Integer({
    minimum: 0,
    maximum: 1_073_741_824,
    default: 1_048_576,
    description:
      "bytes of a vendor's response that are read after the client disconnected, from 0 to 1073741824",
  }),
  RESPONSE_CACHE_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 68_719_476_736,
    default: 67_108_864,
    description: 'the most bytes of cached responses in memory, from 1048576 to 68719476736',
  }),
  UPSTREAM_CONNECT_TIMEOUT_MS: Milliseconds(5_000, 'how long connecting to a vendor may take'),
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: Milliseconds(
    600_000,
    "how long the first byte of a vendor's response may take",
  ),
  UPSTREAM_CHUNK_TIMEOUT_MS: Milliseconds(300_000, "how long a vendor's response may pause"),
  UPSTREAM_MAX_RETRIES: Type.Integer({
    minimum: 0,
    maximum: 10,
    default: 2,
    description: 'further attempts of a request after a failed one, from 0 to 10',
  }),
  UPSTREAM_RETRY_WITHIN_MS: Milliseconds(30_000, 'how long after its start a request may be retried'),
  SESSION_PIN_TTL_MS: Type.Integer({
    minimum: 60_000,
    maximum: 604_800_000,
    default: 3_600_000,
    description: 'milliseconds that an idle session stays pinned, from 60000 to 604800000',
  }),
  SESSION_PINS_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 134_217_728,
    description: 'the most bytes of all session pins, from 1048576 to 1099511627776',
  }),
  REQUEST_LOG_SUCCESS_RATIO: Type.Number({
    minimum: 0,
    maximum: 1,
    default: 0.01,
    description: 'the share of successful requests that is logged, from 0 (none) to 1 (all)',
  }),
  TRACE_CONTENT: Type.Boolean({
    default: false,
    description: 'whether prompts and responses are sent to the trace collector: true or false',
  }),
  TRACE_CONTENT_MAX_LENGTH: Type.Integer({
    minimum: 100,
    maximum: 16_384,
    default: 4_096,
    description: 'characters of each prompt and response in a trace, from 100 to 16384',
  }),
  NATS_BUCKET_REPLICAS: Type.Integer({
    minimum: 1,
    maximum: 5,
    default: 1,
    description: 'the number of NATS servers that store the session pins, from 1 to 5',
  }),
});

/** Further settings of a data plane that is its own process. */
export const ProcessSettings = Type.Object({
  NATS_URL: NatsUrl,
  ...NatsStreamSettings,
  HOST: Host,
  PORT: Port(8080, 'inference'),
  ...MetricsSettings,
  PROCESSES: Type.Integer({
    minimum: 1,
    maximum: 256,
    default: 1,
    description: 'processes that share the port, from 1 to 256: one for each core to use',
  }),
  ...HttpLimitSettings,
  SHUTDOWN_DELAY_MS: ShutdownDelayMs,
  SHUTDOWN_GRACE_MS: ShutdownGraceMs(30_000),
  ...TracingSettings,
  LOG_LEVEL: LogLevel('info'),
  RESPONSE_CACHE_SHARED: Type.Boolean({
    default: false,
    description: 'whether the proxies share cached responses in NATS: true or false',
  }),
  RESPONSE_CACHE_KEY: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9+/]{43}=$',
      description:
        'the key that encrypts shared responses, the same for all proxies: 32 bytes in base64, as from `openssl rand -base64 32`',
    }),
  ),
  RESPONSE_CACHE_SHARED_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 268_435_456,
    description: 'the most bytes of shared responses in NATS, from 1048576 to 1099511627776',
  }),
});
