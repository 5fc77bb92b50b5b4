import Type from 'typebox';
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from '../http/httpServer.ts';
import { LOG_LEVELS } from '../logging/logger.ts';
import type { MetricsAddress } from '../metrics/listenMetrics.ts';
import { SettingsError } from './settings.ts';

// Settings that several apps share.

export const DatabaseUrl = Type.String({
  pattern: '^postgres(ql)?://',
  description: 'the address of Postgres, such as postgresql://user:password@host:5432/weighbridge',
});

export const NatsUrl = Type.String({
  pattern: '^(nats|tls)://',
  description: 'the address of NATS with JetStream, such as nats://host:4222, several with commas',
});

/** The usage stream is created with these and checked against them. Spread them into the settings of an app, with NatsUrl. */
export const NatsStreamSettings = {
  NATS_STREAM_REPLICAS: Type.Integer({
    minimum: 1,
    maximum: 5,
    default: 1,
    description: 'how many NATS servers store the usage stream, from 1 to 5',
  }),
  NATS_STREAM_MAX_BYTES: Type.Integer({
    minimum: 1_048_576,
    maximum: 1_099_511_627_776,
    default: 1_073_741_824,
    description: 'how many bytes the usage stream may hold, from 1048576 to 1099511627776',
  }),
};

export const Host = Type.String({ default: '127.0.0.1', description: 'the address to listen on' });

export function Port(fallback: number, use: string) {
  return Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: fallback,
    description: `the port for ${use}, a number from 0 to 65535`,
  });
}

/** The secret that proxies authenticate with at the control plane. */
export const ControlPlaneToken = Type.String({
  minLength: 16,
  description:
    'a secret of at least 16 characters, the same for the control plane and its proxies, as from `openssl rand -hex 32`',
});

/** The port for metrics, apart from the one that tenants reach. Spread them into the settings of an app. */
export const MetricsSettings = {
  METRICS_PORT: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 65_535,
      description: 'the port for GET /metrics, a number from 0 to 65535, other than PORT',
    }),
  ),
  METRICS_HOST: Type.String({ default: '127.0.0.1', description: 'the address to listen on for metrics' }),
};

/** Undefined: metrics are not served. Throws a SettingsError if the port is one that serves something else. */
export function metricsAddress(
  settings: { readonly METRICS_PORT?: number; readonly METRICS_HOST: string },
  otherPorts: Readonly<Record<string, number>>,
): MetricsAddress | undefined {
  const { METRICS_PORT: port, METRICS_HOST: host } = settings;
  if (port === undefined) return undefined;
  for (const [name, other] of Object.entries(otherPorts)) {
    if (port === other && port !== 0) {
      throw new SettingsError(
        `METRICS_PORT is not valid: ${name} is ${other} too, and metrics need their own port. Set METRICS_PORT to a free one, such as 9090`,
      );
    }
  }
  return { host, port };
}

export function LogLevel(fallback: (typeof LOG_LEVELS)[number]) {
  return Type.Union(
    LOG_LEVELS.map((level) => Type.Literal(level)),
    { default: fallback, description: `one of ${LOG_LEVELS.join(', ')}` },
  );
}

/** What slow or many clients may take of a server. Spread them into the settings of an app. */
export const HttpLimitSettings = {
  HEADERS_TIMEOUT_MS: Type.Integer({
    minimum: 1_000,
    maximum: 300_000,
    default: DEFAULT_HTTP_LIMITS.headersTimeoutMs,
    description: 'how long the head of a request may take, in milliseconds, from 1000 to 300000',
  }),
  BODY_TIMEOUT_MS: Type.Integer({
    minimum: 1_000,
    maximum: 300_000,
    default: DEFAULT_HTTP_LIMITS.bodyTimeoutMs,
    description:
      'how long a body may take besides a second for each 8 KiB, in milliseconds, from 1000 to 300000',
  }),
  MAX_CONNECTIONS: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    default: DEFAULT_HTTP_LIMITS.maxConnections,
    description: 'how many connections of clients a process holds, from 1 to 1000000',
  }),
};

export function httpLimits(settings: {
  readonly HEADERS_TIMEOUT_MS: number;
  readonly BODY_TIMEOUT_MS: number;
  readonly MAX_CONNECTIONS: number;
}): HttpLimits {
  return {
    headersTimeoutMs: settings.HEADERS_TIMEOUT_MS,
    bodyTimeoutMs: settings.BODY_TIMEOUT_MS,
    maxConnections: settings.MAX_CONNECTIONS,
  };
}

export const ShutdownGraceMs = (fallback: number) =>
  Type.Integer({
    minimum: 0,
    maximum: 3_600_000,
    default: fallback,
    description: 'how long requests in flight may take after a stop signal, in milliseconds, at most an hour',
  });

export const ShutdownDelayMs = Type.Integer({
  minimum: 0,
  maximum: 600_000,
  default: 0,
  description: 'how long new requests are accepted after a stop signal, in milliseconds, at most 10 minutes',
});

const File = (what: string) => Type.Optional(Type.String({ description: `the PEM file of ${what}` }));

/** Mutual TLS between the apps. Spread them into the settings of an app. */
export const TlsSettings = {
  CONTROL_TLS_CERTIFICATE_FILE: File("this app's certificate"),
  CONTROL_TLS_KEY_FILE: File("that certificate's private key"),
  CONTROL_TLS_CA_FILE: File('the certificate authorities that this app trusts'),
};

/** Undefined if none of the three is set. Throws a SettingsError if one or two are. */
export function tlsFiles(settings: {
  readonly CONTROL_TLS_CERTIFICATE_FILE?: string;
  readonly CONTROL_TLS_KEY_FILE?: string;
  readonly CONTROL_TLS_CA_FILE?: string;
}): { certificateFile: string; privateKeyFile: string; caFile: string } | undefined {
  const { CONTROL_TLS_CERTIFICATE_FILE: certificateFile, CONTROL_TLS_KEY_FILE: privateKeyFile } = settings;
  const { CONTROL_TLS_CA_FILE: caFile } = settings;
  if (certificateFile && privateKeyFile && caFile) return { certificateFile, privateKeyFile, caFile };
  if (!certificateFile && !privateKeyFile && !caFile) return undefined;
  const missing = Object.keys(TlsSettings).filter((name) => !settings[name as keyof typeof TlsSettings]);
  throw new SettingsError(`${missing.join(' and ')} is missing: TLS between the apps needs all three files`);
}
