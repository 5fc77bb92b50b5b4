import { setTimeout as sleep } from 'node:timers/promises';
import { openJetStreamUsageStream } from '@weighbridge/bus';
import { checkConnection, createDb, type Database, schemaMismatch } from '@weighbridge/database';
import {
  createMetrics,
  type Logger,
  listenHttp,
  listenMetrics,
  runService,
  startTracing,
} from '@weighbridge/runtime';
import { createHttpApp, toHandler } from '@weighbridge/runtime/fastify';
import { loadConfig } from './config.ts';
import { startMetering } from './metering.ts';

const SCHEMA_WAIT_MS = 30_000;
const SCHEMA_POLL_MS = 500;
const HEALTH_BODY_LIMIT_BYTES = 1_024;

const exitCode = await runService('metering', async (context) => {
  const { logger, onShutdown } = context;
  const config = loadConfig(process.env);
  logger.level = config.logLevel;
  const metrics = createMetrics();
  await listenMetrics(config.metrics, metrics, context);
  const tracing = await startTracing(config.tracing, metrics, context);
  const db = createDb(config.databaseUrl, {
    applicationName: 'weighbridge-metering',
    onIdleError: (error) => logger.warn({ why: error }, 'lost a connection to Postgres'),
  });
  onShutdown('database', () => db.destroy());
  await checkConnection(db);
  await waitForSchema(db, logger);
  const stream = await openJetStreamUsageStream({
    url: config.natsUrl,
    ...config.natsStream,
    name: 'weighbridge-metering',
    onError: (error, what) => logger.warn({ err: error }, what),
  });
  onShutdown('usage stream', () => stream.close());
  const { retentionDays, refusalRetentionDays, archive } = config;
  const now = () => new Date();
  const metering = await startMetering(
    { db, stream, now, retentionDays, refusalRetentionDays, archive, metrics, tracing },
    context,
  );

  const { notReady, degraded } = metering;
  const app = createHttpApp({ logger, bodyLimitBytes: HEALTH_BODY_LIMIT_BYTES, notReady, degraded });
  const server = await listenHttp({
    handler: await toHandler(app),
    ...config.http,
    portSetting: 'PORT',
    metrics,
  });
  onShutdown('http', () => server.close(1_000));
  logger.info({ url: server.url }, 'metering is ready');
});
process.exit(exitCode);

/** Waits until the control plane, which may start at the same time, has migrated the database. */
async function waitForSchema(db: Database, logger: Logger): Promise<void> {
  const deadline = performance.now() + SCHEMA_WAIT_MS;
  let logged: string | undefined;
  for (;;) {
    const mismatch = await schemaMismatch(db);
    if (!mismatch) return;
    if (performance.now() > deadline) throw new Error(`This release cannot use the database: ${mismatch}`);
    if (mismatch !== logged) {
      logger.warn(
        { mismatch, waitSeconds: SCHEMA_WAIT_MS / 1_000 },
        'waiting for the schema of the database',
      );
      logged = mismatch;
    }
    await sleep(SCHEMA_POLL_MS);
  }
}
