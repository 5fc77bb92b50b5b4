import { Host, LogLevel, type LogLevelName, NatsUrl, Port, readSettings } from '@weighbridge/runtime';
import Type from 'typebox';
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
  CONTROL_PLANE_TOKEN: Type.Optional(
    Type.String({ minLength: 16, description: 'the secret that the control plane was given' }),
  ),
  BODY_LIMIT_BYTES: Type.Integer({
    minimum: 1_024,
    maximum: 1_073_741_824,
    default: 33_554_432,
    description: 'the largest body that is taken, from 1024 to 1073741824',
  }),
  UPSTREAM_CONNECT_TIMEOUT_MS: Milliseconds(5_000, 'how long connecting to a vendor may take'),
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: Milliseconds(600_000, "how long a vendor's first byte may take"),
  UPSTREAM_CHUNK_TIMEOUT_MS: Milliseconds(300_000, "how long a vendor's next bytes may take"),
});

const ProcessSettings = Type.Object({
  NATS_URL: NatsUrl,
  HOST: Host,
  PORT: Port(8080, 'inference'),
  LOG_LEVEL: LogLevel('info'),
});

/** What the data plane does, in whichever process it runs. */
export interface DataPlaneConfig {
  readonly controlPlane: { readonly address: string; readonly token: string | undefined };
  readonly bodyLimitBytes: number;
  readonly upstream: UpstreamOptions;
}

/** What it needs besides as a process of its own. */
export interface ProcessConfig {
  readonly natsUrl: string;
  readonly http: { readonly host: string; readonly port: number };
  readonly logLevel: LogLevelName;
}

/** The data plane's settings, each with its default in docs/configuration.md. */
export function loadConfig(env: Environment): DataPlaneConfig {
  const settings = readSettings(Settings, env);
  return {
    controlPlane: { address: settings.CONTROL_PLANE_ADDRESS, token: settings.CONTROL_PLANE_TOKEN },
    bodyLimitBytes: settings.BODY_LIMIT_BYTES,
    upstream: {
      connectTimeoutMs: settings.UPSTREAM_CONNECT_TIMEOUT_MS,
      firstByteTimeoutMs: settings.UPSTREAM_FIRST_BYTE_TIMEOUT_MS,
      chunkTimeoutMs: settings.UPSTREAM_CHUNK_TIMEOUT_MS,
    },
  };
}

export function loadProcessConfig(env: Environment): ProcessConfig {
  const settings = readSettings(ProcessSettings, env);
  return {
    natsUrl: settings.NATS_URL,
    http: { host: settings.HOST, port: settings.PORT },
    logLevel: settings.LOG_LEVEL,
  };
}

type Environment = Readonly<Record<string, string | undefined>>;
