import { checkConnection, createDatabasePools } from '@weighbridge/database';
import {
  addCertificateMetric,
  createMetrics,
  listenHttp,
  listenMetrics,
  runService,
  startTracing,
} from '@weighbridge/runtime';
import { loadConfig } from './config.ts';
import { startControlPlane } from './controlPlane.ts';

const GRACE_MS = 10_000;

const exitCode = await runService('control-plane', async (context) => {
  const config = loadConfig(process.env);
  context.logger.level = config.logLevel;
  const metrics = createMetrics();
  await listenMetrics(config.metrics, metrics, context);
  const tracing = await startTracing(config.tracing, metrics, context);
  const pools = createDatabasePools(config.databaseUrl, config.pools, {
    applicationName: 'weighbridge-control-plane',
    onIdleError: (error) => context.logger.warn({ why: error }, 'lost a connection to Postgres'),
  });
  context.onShutdown('database', () => pools.destroy());
  await checkConnection(pools.writes);
  addCertificateMetric(metrics, config.grpc.tls?.certificateFile);
  const { handler } = await startControlPlane(
    config,
    { pools, now: () => new Date(), metrics, tracing },
    context,
  );
  const server = await listenHttp({ handler, ...config.http, portSetting: 'PORT', metrics });
  const { shutdownDelayMs } = config;
  context.onShutdown(
    'http',
    async () => {
      await server.drain(shutdownDelayMs);
      await server.close(GRACE_MS);
    },
    shutdownDelayMs + GRACE_MS + 1_000,
  );
  context.logger.info({ url: server.url, grpc: config.grpc.port }, 'the control plane is ready');
});
process.exit(exitCode);
