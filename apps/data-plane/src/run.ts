import cluster from 'node:cluster';
import { readFileSync } from 'node:fs';
import { openJetStreamBucket, openJetStreamUsageStream } from '@weighbridge/bus';
import {
  addCertificateMetric,
  createMetrics,
  listenHttp,
  listenMetrics,
  runService,
  type ServiceContext,
  startTracing,
} from '@weighbridge/runtime';
import { CACHE_BUCKET_SETTINGS, cacheBucketSettings, type SharedCache } from './cache/openResponseCache.ts';
import { environmentOf, loadConfig, loadProcessConfig, type ProcessConfig } from './config.ts';
import { shutdownMs, startDataPlane } from './dataPlane.ts';
import { letYoungSpaceGrow, nodeArguments, tuneCollections } from './heapGrowth.ts';
import { openPinBucket } from './routing/pinBucket.ts';
import { refusalResponse } from './server/inferenceHandler.ts';
import { runProcesses } from './server/processes.ts';
import { openResponseBucket } from './translation/responseStore.ts';

/** Runs this service until it ends; resolves with its exit code. */
export function run(env: NodeJS.ProcessEnv): Promise<number> {
  return runService('data-plane', async (context) => {
    const settings = loadProcessConfig(env);
    context.logger.level = settings.logLevel;
    if (settings.processes === 1 || cluster.isWorker) return await serve(settings, env, context);
    await runProcesses({
      ...context,
      environments: Array.from({ length: settings.processes }, (_, index) => environmentOf(env, index)),
      nodeArguments: nodeArguments(process.execArgv, env.NODE_OPTIONS),
      port: settings.http.port,
      stopTimeoutMs: shutdownMs(settings.shutdown),
    });
    context.logger.info({ processes: settings.processes }, 'the data plane is ready');
  });
}

async function serve(
  settings: ProcessConfig,
  env: NodeJS.ProcessEnv,
  context: ServiceContext,
): Promise<void> {
  const { logger, onShutdown } = context;
  onShutdown('heap', tuneCollections());
  const config = loadConfig(env);
  const metrics = createMetrics();
  await listenMetrics(settings.metrics, metrics, context);
  const tracing = await startTracing(settings.tracing, metrics, context);
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const onError = (error: unknown, what: string) => logger.warn({ err: error }, what);
  const stream = await openJetStreamUsageStream({
    url: settings.natsUrl,
    ...settings.natsStream,
    name: 'weighbridge-data-plane',
    onError,
  });
  onShutdown('usage stream', () => stream.close());
  const pinBucket = await openPinBucket(config.pins, { store: { natsUrl: settings.natsUrl }, onError });
  onShutdown('session pins', () => pinBucket.close());
  const responseBucket = await openResponseBucket(settings.natsUrl, config.pins.replicas, onError);
  onShutdown('responses', async () => responseBucket?.close());
  const sharedCache = await openSharedCache(settings, config.pins.replicas, context);
  addCertificateMetric(metrics, config.controlPlane.tls?.certificateFile);
  const buckets = { pinBucket, responseBucket, sharedCache };
  const deps = { stream, ...buckets, now: () => new Date(), version, metrics, tracing };
  const dataPlane = await startDataPlane(config, deps, context);
  const server = await listenHttp({
    handler: dataPlane.handler,
    ...settings.http,
    portSetting: 'PORT',
    errorResponse: refusalResponse,
    metrics,
  });
  dataPlane.closeFirst(server, settings.shutdown);
  letYoungSpaceGrow();
  const isOneOfSeveral = cluster.isWorker;
  logger.info({ url: server.url }, isOneOfSeveral ? 'worker is ready' : 'the data plane is ready');
}

async function openSharedCache(
  { natsUrl, sharedCache }: ProcessConfig,
  replicas: number,
  { logger, onShutdown }: ServiceContext,
): Promise<SharedCache | undefined> {
  if (!sharedCache) return undefined;
  const { sealingKey, maxBytes } = sharedCache;
  const bucket = await openJetStreamBucket(
    {
      url: natsUrl,
      clientName: 'weighbridge-data-plane-answers',
      setBy: CACHE_BUCKET_SETTINGS,
      onError: (error, what) => logger.warn({ err: error }, what),
    },
    cacheBucketSettings({ maxBytes, replicas }),
  );
  onShutdown('shared response cache', () => bucket.close());
  return { bucket, sealingKey };
}
