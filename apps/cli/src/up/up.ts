import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { createInProcessUsageStream, openJetStreamUsageStream, type UsageStream } from '@weighbridge/bus';
import { loadConfig as loadControlPlaneConfig, startControlPlane } from '@weighbridge/control-plane';
import { loadConfig as loadDataPlaneConfig, openPinBucket, startDataPlane } from '@weighbridge/data-plane';
import { checkConnection, createDb, type Database, takeLock } from '@weighbridge/database';
import { startLocalPostgres } from '@weighbridge/local-postgres';
import { loadLedgerConfig, startMetering } from '@weighbridge/metering';
import { startMockVendor } from '@weighbridge/mock-vendor';
import {
  addCertificateMetric,
  createMetrics,
  listenHttp,
  type ServiceContext,
  startTracing,
} from '@weighbridge/runtime';
import { banner } from './banner.ts';
import { loadUpConfig, type UpConfig } from './config.ts';
import { openDataDir } from './dataDir.ts';
import { lockInstance } from './instanceLock.ts';
import { dataDirKeyEncryptionKey } from './keyEncryptionKey.ts';

export interface UpOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Shows progress and what to do next. */
  readonly print: (text: string) => void;
}

/** Any number that no other advisory lock has: what counts is that every embedded start uses the same. */
const INSTANCE_LOCK = 9_071_336_025;
const WITHOUT_TLS = { CONTROL_TLS_CERTIFICATE_FILE: '', CONTROL_TLS_KEY_FILE: '', CONTROL_TLS_CA_FILE: '' };

/** Embedded mode: the three apps, their database and the stream between them in one process, behind one port. */
export async function up({ env, version, print }: UpOptions, context: ServiceContext): Promise<void> {
  const { logger, onShutdown } = context;
  const config = loadUpConfig(env);
  logger.level = config.logLevel;
  const now = () => new Date();
  // One for all three apps: the control plane shows it at /metrics.
  const metrics = createMetrics();
  addCertificateMetric(metrics, undefined);
  const tracing = await startTracing(config.tracing, metrics, context);

  // The port first: when it is taken, nothing else need be started to say so.
  let handler: RequestListener = (_request, response) =>
    response.writeHead(503, { 'retry-after': '1' }).end();
  const server = await listenHttp({
    handler: (request, response) => handler(request, response),
    host: config.host,
    port: config.port,
    portSetting: 'PORT',
  });
  const url = server.url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');

  await openDataDir(config.dataDir);
  const lock = await lockInstance(config.dataDir, url);
  onShutdown('lock', () => lock.release());

  const { db, databaseUrl } = await openDatabase(config, context, print);
  const stream = await openUsageStream(config, context);
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
    // Within one process there is nobody to hide from.
    ...WITHOUT_TLS,
    OPERATOR_KEY_FILE: operatorKeyFile,
    MOCK_VENDOR_URL: mock.url,
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY:
      env.WEIGHBRIDGE_KEY_ENCRYPTION_KEY || (await dataDirKeyEncryptionKey(config.dataDir)),
  });
  const controlPlane = await startControlPlane(controlPlaneConfig, { db, now, metrics, tracing }, context);
  await startMetering({ db, stream, now, metrics, tracing, ...loadLedgerConfig(env) }, context);
  const dataPlaneConfig = loadDataPlaneConfig({
    ...env,
    ...WITHOUT_TLS,
    SPOOL_DIR: env.SPOOL_DIR || join(config.dataDir, 'spool', 'data-plane'),
  });
  const pinBucket = await openPinBucket(dataPlaneConfig.pins, {
    natsUrl: config.natsUrl,
    onError: (error, what) => logger.warn({ err: error }, what),
  });
  onShutdown('session pins', () => pinBucket.close());
  const dataPlane = await startDataPlane(
    { ...dataPlaneConfig, controlPlane: { address: controlPlane.grpcAddress, token, tls: undefined } },
    { stream, pinBucket, now, version, metrics, tracing },
    context,
  );

  handler = (request, response) => {
    (/^\/v1(?=[/?]|$)/.test(request.url ?? '') ? dataPlane.handler : controlPlane.handler)(request, response);
  };
  dataPlane.closeFirst(server, { delayMs: 0, graceMs: config.shutdownGraceMs });
  // Of another database, where the folder was used with one.
  const keptKey = (await readFile(operatorKeyFile, 'utf8').catch(() => '')).trim();
  const opens = keptKey !== '' && (await controlPlane.isOperatorKey(keptKey));
  print(
    banner({
      url,
      dataDir: config.dataDir,
      operatorKeyFile: opens ? operatorKeyFile : undefined,
      providers: controlPlaneConfig.connectors
        .map(({ provider }) => provider)
        .filter((provider) => provider !== 'mock'),
    }),
  );
}

async function openDatabase(
  config: UpConfig,
  { logger, onShutdown, fail }: ServiceContext,
  print: UpOptions['print'],
): Promise<{ db: Database; databaseUrl: string }> {
  let { databaseUrl } = config;
  if (databaseUrl === undefined) {
    print('Starting Postgres …');
    const postgres = await startLocalPostgres({
      dataDir: join(config.dataDir, 'postgres'),
      onExit: (detail) => fail(new Error(`Postgres stopped by itself: ${detail}`)),
    });
    onShutdown('postgres', () => postgres.stop(), 20_000);
    databaseUrl = postgres.url;
  }
  const db = createDb(databaseUrl, {
    applicationName: 'weighbridge',
    maxConnections: 20,
    onIdleError: (error) => logger.warn({ err: error }, 'lost a connection to Postgres'),
  });
  onShutdown('database', () => db.destroy());
  await checkConnection(db);
  // Another one would point the mock provider to itself, and each would undo what the other sets.
  const running = `Weighbridge is already running on this database, with another data folder than ${config.dataDir}. Stop it first, or choose another database by DATABASE_URL.`;
  const lock = await takeLock(databaseUrl, INSTANCE_LOCK, { onTaken: () => fail(new Error(running)) });
  if (!lock) throw new Error(running);
  onShutdown('lock of the database', () => lock.release());
  return { db, databaseUrl };
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
