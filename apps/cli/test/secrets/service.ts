import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '@weighbridge/database';
import { startMockVendor } from '@weighbridge/mock-vendor';
import {
  createTestDatabase,
  freePort,
  type OtlpReceiver,
  startNats,
  startOtlpReceiver,
  startTestIssuer,
  TEST_AUDIENCE,
  type TestIssuer,
} from '@weighbridge/testing';
import { type RunningProcess, startApp } from '../processes.ts';

/** The whole service as processes with the most detailed logs, and with the secrets of the test. */
export interface GuardedService {
  readonly urls: { readonly api: string; readonly inference: string };
  /** Of each app's `/metrics`. */
  readonly metricsUrls: Readonly<Record<string, string>>;
  readonly apps: Readonly<Record<'api' | 'inference' | 'metering', RunningProcess>>;
  readonly vendors: { readonly sealedUrl: string; readonly echoUrl: string };
  readonly issuer: TestIssuer;
  /** The collector of the traces of all three apps. */
  readonly collector: OtlpReceiver;
  readonly db: Database;
  readonly natsUrl: string;
  /** The folder of the proxy's spool and state. */
  readonly folder: string;
  close(): Promise<void>;
}

/** `secret` returns a secret by its name. */
export async function startGuardedService(secret: (name: string) => string): Promise<GuardedService> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-secrets-'));
  const [environment, sealed, echo, database, nats, issuer, collector] = await Promise.all([
    startMockVendor({ apiKey: secret('a credential of the environment') }),
    startMockVendor({ apiKey: secret('a sealed credential') }),
    startEcho(),
    createTestDatabase(),
    startNats(),
    startTestIssuer(),
    startOtlpReceiver(),
  ]);
  const [api, grpc] = [await freePort(), await freePort()];
  const inference = await freePort();
  const scrapes = { api: await freePort(), inference: await freePort(), metering: await freePort() };
  const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
  const CONTROL_PLANE_TOKEN = secret('the token of the control plane');
  const settings = {
    'control-plane': {
      DATABASE_URL,
      CONTROL_PLANE_TOKEN,
      PORT: String(api),
      METRICS_PORT: String(scrapes.api),
      GRPC_PORT: String(grpc),
      WEIGHBRIDGE_BOOTSTRAP_KEY: secret('the operator key'),
      WEIGHBRIDGE_PEPPER: secret('the pepper'),
      WEIGHBRIDGE_KEY_ENCRYPTION_KEY: secret('the key-encryption key'),
      OPENAI_API_KEY: secret('a credential of the environment'),
      OPENAI_BASE_URL: environment.url,
      ALLOWED_UPSTREAM_HOSTS: '127.0.0.1',
      OIDC_ISSUER: issuer.url,
      OIDC_AUDIENCE: TEST_AUDIENCE,
      OIDC_SCOPE_MAP: JSON.stringify({ admins: ['operator', 'keys:read', 'keys:write', 'usage:read'] }),
    },
    'data-plane': {
      NATS_URL,
      CONTROL_PLANE_TOKEN,
      PORT: String(inference),
      METRICS_PORT: String(scrapes.inference),
      CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
      STATE_KEY: secret('the state key'),
      STATE_FILE: join(folder, 'state'),
      SPOOL_DIR: join(folder, 'spools', 'own'),
      REQUEST_LOG_SUCCESS_RATIO: '1',
      RESPONSE_CACHE_SHARED: 'true',
      RESPONSE_CACHE_KEY: secret('the key of the response cache'),
      UPSTREAM_MAX_RETRIES: '0',
    },
    metering: { DATABASE_URL, NATS_URL, PORT: '0', METRICS_PORT: String(scrapes.metering) },
  };
  const all = {
    LOG_LEVEL: 'debug',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: `x-collector-key=${secret('the key of the collector')}`,
  };
  const start = (app: keyof typeof settings) => startApp(app, { ...all, ...settings[app] }, /is ready/);
  const [first, second, third] = await Promise.all([
    start('control-plane'),
    start('data-plane'),
    start('metering'),
  ]);
  return {
    urls: {
      api: `http://127.0.0.1:${api}`,
      inference: `http://127.0.0.1:${inference}`,
    },
    metricsUrls: Object.fromEntries(
      Object.entries(scrapes).map(([app, port]) => [app, `http://127.0.0.1:${port}/metrics`]),
    ),
    apps: { api: first, inference: second, metering: third },
    vendors: {
      sealedUrl: sealed.url,
      echoUrl: `http://127.0.0.1:${(echo.address() as AddressInfo).port}/v1`,
    },
    issuer,
    collector,
    db: database.db,
    natsUrl: nats.url,
    folder,
    async close() {
      await Promise.all([first, second, third].map((app) => app.stop()));
      echo.closeAllConnections();
      echo.close();
      await Promise.all([environment, sealed, issuer, collector].map((one) => one.close()));
      await nats.stop();
      await database.drop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A vendor that fails every request, as a refused credential if the client asks for that, and repeats the credential. */
async function startEcho(): Promise<Server> {
  const server = createServer((request, response) => {
    const credential = String(request.headers.authorization).replace('Bearer ', '');
    const status = request.url?.includes('models')
      ? 403
      : request.headers['openai-beta'] === 'refuse'
        ? 401
        : 400;
    const reason = status === 400 ? 'The request is malformed' : 'Incorrect API key provided';
    const message = `${reason}: ${credential}.`;
    response
      .writeHead(status, { 'x-echo': credential, 'content-type': 'application/json' })
      .end(JSON.stringify({ error: { message, code: credential } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}
