import { randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createInProcessUsageStream, openJetStreamUsageStream, type UsageStream } from '@weighbridge/bus';
import {
  type ControlPlane,
  loadConfig as loadControlPlaneConfig,
  startControlPlane,
} from '@weighbridge/control-plane';
import {
  type DataPlane,
  isInferencePath,
  loadConfig as loadDataPlaneConfig,
  openPinBucket,
  openResponseBucket,
  refusalResponse,
  startDataPlane,
} from '@weighbridge/data-plane';
import {
  checkConnection,
  createDatabasePools,
  createDb,
  type Database,
  takeLock,
} from '@weighbridge/database';
import { startLocalPostgres } from '@weighbridge/local-postgres';
import { loadLedgerConfig, startMetering } from '@weighbridge/metering';
import { startMockVendor } from '@weighbridge/mock-vendor';
import {
  addCertificateMetric,
  createMetrics,
  type HttpServer,
  listenHttp,
  listenMetrics,
  type Metrics,
  type ServiceContext,
  startTracing,
  type Tracing,
} from '@weighbridge/runtime';
import type { Demo } from '../demo/demo.ts';
import { URL_FILE } from '../session/settings.ts';
import { banner } from './banner.ts';
import { loadUpConfig, type UpConfig } from './config.ts';
import { execInContainer } from './container.ts';
import { openDataDir } from './dataDir.ts';
import { lockInstance, orAlreadyRunning } from './instanceLock.ts';
import { dataDirKeyEncryptionKey } from './keyEncryptionKey.ts';

export interface UpOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Prints progress and the banner. */
  readonly print: (text: string) => void;
  /** Fills a new service, and shows it. */
  readonly demo?: Demo;
}

/** In the data folder: the address of embedded mode's own Postgres, with its password. */
const DATABASE_URL_FILE = 'database-url';
/** The advisory lock of embedded mode; no other lock uses this number. */
const INSTANCE_LOCK = 9_071_336_025;
const WITHOUT_TLS = { CONTROL_TLS_CERTIFICATE_FILE: '', CONTROL_TLS_KEY_FILE: '', CONTROL_TLS_CA_FILE: '' };

/** What the three apps share in embedded mode. */
interface SharedParts {
  readonly db: Database;
  readonly stream: UsageStream;
  readonly metrics: Metrics;
  /** Undefined: no tracing. */
  readonly tracing: Tracing | undefined;
  readonly now: () => Date;
}

/** Embedded mode: the three apps, their database and the stream between them in one process, behind one port. */
export async function up(
  { env: given, version, print, demo }: UpOptions,
  context: ServiceContext,
): Promise<void> {
  const { logger, onShutdown } = context;
  const config = loadUpConfig(given);
  logger.level = config.logLevel;
  const now = demo?.now ?? (() => new Date());
  // The apps share one registry; the control plane serves it to operators at /metrics.
  const metrics = createMetrics();
  await orAlreadyRunning(listenMetrics(config.metrics, metrics, context), config.dataDir);
  addCertificateMetric(metrics, undefined);
  const tracing = await startTracing(config.tracing, metrics, context);

  // The port comes first: if it is taken, nothing else has to be started.
  const port = await orAlreadyRunning(openPort(config, metrics), config.dataDir);
  const env = { ...given, ...(await demo?.begin(context)) };
  await openDataDir(config.dataDir);
  const lock = await lockInstance(config.dataDir, port.url);
  onShutdown('lock', () => lock.release());

  const { db, databaseUrl, onIdleError } = await openDatabase(config, context, print);
  const stream = await openUsageStream(config, context);
  const shared: SharedParts = { db, stream, metrics, tracing, now };
  const mock = await startMockVendor({ keep: 0 });
  onShutdown('mock vendor', () => mock.close());

  print('Starting the control plane, metering and the data plane …');
  const token = randomBytes(32).toString('base64url');
  const operatorKeyFile = join(config.dataDir, 'operator-key');
  const controlPlaneConfig = loadControlPlaneConfig({
    ...env,
    DATABASE_URL: databaseUrl,
    GRPC_HOST: '127.0.0.1',
    GRPC_PORT: '0',
    CONTROL_PLANE_TOKEN: token,
    // Traffic within one process needs no TLS.
    ...WITHOUT_TLS,
    OPERATOR_KEY_FILE: operatorKeyFile,
    MOCK_VENDOR_URL: mock.url,
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY:
      env.WEIGHBRIDGE_KEY_ENCRYPTION_KEY || (await dataDirKeyEncryptionKey(config.dataDir)),
  });
  const pools = createDatabasePools(databaseUrl, controlPlaneConfig.pools, {
    applicationName: 'weighbridge',
    onIdleError,
  });
  onShutdown('pools of the control plane', () => pools.destroy());
  const controlPlane = await startControlPlane(
    controlPlaneConfig,
    { ...shared, pools, hasOperatorMetrics: true },
    context,
  );
  const operatorKey = await operatorKeyIn(operatorKeyFile, controlPlane);
  if (demo) {
    port.serve(controlPlane.handler);
    await demo.fill({ url: port.url, operatorKey: operatorKey ?? '', db });
  }
  await startMetering({ ...shared, ...loadLedgerConfig(env) }, context);
  const address = controlPlane.grpcAddress;
  const dataPlane = await startEmbeddedDataPlane(env, config, { address, token }, version, shared, context);

  port.serve((request, response) => {
    (isInferencePath(request.url ?? '') ? dataPlane.handler : controlPlane.handler)(request, response);
  });
  dataPlane.closeFirst(port.server, { delayMs: 0, graceMs: config.shutdownGraceMs });
  // For commands that run in this folder.
  await writeFile(join(config.dataDir, URL_FILE), `${port.url}\n`);
  const signInPath = isLoopback(config.host) && operatorKey && controlPlane.createSignInLink(operatorKey);
  const signInUrl = signInPath ? `${port.url}${signInPath}` : undefined;
  const { url } = port;
  const { dataDir } = config;
  if (demo) {
    const controlPlaneAddress = { address, token };
    const parts = { url, signInUrl, operatorKey: operatorKey ?? '', dataDir, db, stream };
    return await demo.show({ ...parts, controlPlane: controlPlaneAddress }, context);
  }
  print(
    banner({
      url,
      dataDir,
      operatorKeyFile: operatorKey && operatorKeyFile,
      signInUrl,
      providers: controlPlaneConfig.connectors
        .map(({ provider }) => provider)
        .filter((provider) => provider !== 'mock'),
      execInContainer: config.isStandaloneImage ? execInContainer(hostname()) : undefined,
      nodeVersion: process.version,
    }),
  );
}

/** Listens on the port of embedded mode; it answers 503 until `serve` is called. */
async function openPort(
  { host, port, limits }: UpConfig,
  metrics: Metrics,
): Promise<{
  readonly server: HttpServer;
  readonly url: string;
  serve(handler: RequestListener): void;
}> {
  let handler: RequestListener = (_request, response) =>
    response.writeHead(503, { 'retry-after': '1' }).end();
  const server = await listenHttp({
    handler: (request, response) => handler(request, response),
    host,
    port,
    portSetting: 'PORT',
    errorResponse: refusalResponse,
    metrics,
    ...limits,
  });
  return {
    server,
    url: server.url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:'),
    serve(next) {
      handler = next;
    },
  };
}

async function startEmbeddedDataPlane(
  env: UpOptions['env'],
  config: UpConfig,
  controlPlane: { readonly address: string; readonly token: string },
  version: string,
  { stream, metrics, tracing, now }: SharedParts,
  context: ServiceContext,
): Promise<DataPlane> {
  const dataPlaneConfig = loadDataPlaneConfig({
    ...env,
    ...WITHOUT_TLS,
    CONTROL_PLANE_TOKEN: controlPlane.token,
    SPOOL_DIR: env.SPOOL_DIR || join(config.dataDir, 'spool', 'data-plane'),
  });
  const pinBucket = await openPinBucket(dataPlaneConfig.pins, {
    store: config.natsUrl ? { natsUrl: config.natsUrl } : { path: join(config.dataDir, 'session-pins') },
    onError: (error, what) => context.logger.warn({ err: error }, what),
  });
  context.onShutdown('session pins', () => pinBucket.close());
  const onError = (error: unknown, what: string) => context.logger.warn({ err: error }, what);
  const responseBucket = await openResponseBucket(config.natsUrl, dataPlaneConfig.pins.replicas, onError);
  context.onShutdown('responses', async () => responseBucket?.close());
  return await startDataPlane(
    { ...dataPlaneConfig, controlPlane: { ...controlPlane, tls: undefined } },
    { stream, pinBucket, responseBucket, now, version, metrics, tracing },
    context,
  );
}

/** The key in this file, if it is an operator key of this database; the folder may have been used with another one. */
async function operatorKeyIn(
  operatorKeyFile: string,
  controlPlane: Pick<ControlPlane, 'isOperatorKey'>,
): Promise<string | undefined> {
  const key = (await readFile(operatorKeyFile, 'utf8').catch(() => '')).trim();
  return key !== '' && (await controlPlane.isOperatorKey(key)) ? key : undefined;
}

/** Whether only this machine reaches a host that a service listens on. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

async function openDatabase(
  config: UpConfig,
  { logger, onShutdown, fail }: ServiceContext,
  print: UpOptions['print'],
): Promise<{ db: Database; databaseUrl: string; onIdleError: (error: Error) => void }> {
  let { databaseUrl } = config;
  if (databaseUrl === undefined) {
    print('Starting Postgres …');
    const postgres = await startLocalPostgres({
      dataDir: join(config.dataDir, 'postgres'),
      onRestart: (detail) => logger.error({ detail }, 'Postgres ended and is started again'),
      onExit: (detail) => fail(new Error(`Postgres stopped unexpectedly: ${detail}`)),
    });
    onShutdown('postgres', () => postgres.stop(), 20_000);
    databaseUrl = postgres.url;
    // For tools of Postgres; the port changes with every start.
    const file = join(config.dataDir, DATABASE_URL_FILE);
    await rm(file, { force: true });
    await writeFile(file, `${databaseUrl}\n`, { mode: 0o600, flag: 'wx' });
  }
  const onIdleError = (error: Error) => logger.warn({ why: error }, 'lost a connection to Postgres');
  const db = createDb(databaseUrl, { applicationName: 'weighbridge metering', onIdleError });
  onShutdown('database', () => db.destroy());
  await checkConnection(db);
  // Two embedded processes would overwrite each other's connectors, such as that of the mock vendor.
  const running = `Weighbridge is already running on this database, with a data folder other than ${config.dataDir}. Stop it first, or set DATABASE_URL to another database.`;
  const lock = await takeLock(databaseUrl, INSTANCE_LOCK, { onTaken: () => fail(new Error(running)) });
  if (!lock) throw new Error(running);
  onShutdown('database lock', () => lock.release());
  return { db, databaseUrl, onIdleError };
}

async function openUsageStream(
  { natsUrl, natsStream }: UpConfig,
  { logger, onShutdown }: ServiceContext,
): Promise<UsageStream> {
  const onError = (error: unknown, what: string) => logger.warn({ err: error }, what);
  const stream = natsUrl
    ? await openJetStreamUsageStream({ url: natsUrl, ...natsStream, name: 'weighbridge', onError })
    : createInProcessUsageStream({ onError });
  onShutdown('usage stream', () => stream.close());
  return stream;
}
