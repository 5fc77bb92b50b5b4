import { readFileSync } from 'node:fs';
import { openJetStreamBucket, openJetStreamUsageStream } from '@weighbridge/bus';
import { listenHttp, runService, type ServiceContext } from '@weighbridge/runtime';
import { answersBucket, type SharedAnswers } from './cache/openResponseCache.ts';
import { loadConfig, loadProcessConfig, type ProcessConfig } from './config.ts';
import { startDataPlane } from './dataPlane.ts';

const exitCode = await runService('data-plane', async (context) => {
  const { logger, onShutdown } = context;
  const processConfig = loadProcessConfig(process.env);
  const { natsUrl, natsStream, http, shutdownGraceMs, logLevel } = processConfig;
  const config = loadConfig(process.env);
  logger.level = logLevel;
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const stream = await openJetStreamUsageStream({
    url: natsUrl,
    ...natsStream,
    name: 'weighbridge-data-plane',
    onError: (error, what) => logger.warn({ err: error }, what),
  });
  onShutdown('usage stream', () => stream.close());
  const sharedAnswers = await openSharedAnswers(processConfig, context);
  const dataPlane = await startDataPlane(
    config,
    { stream, sharedAnswers, now: () => new Date(), version },
    context,
  );
  const server = await listenHttp({ handler: dataPlane.handler, ...http, portSetting: 'PORT' });
  dataPlane.closeFirst(server, shutdownGraceMs);
  logger.info({ url: server.url }, 'the data plane is ready');
});
process.exit(exitCode);

async function openSharedAnswers(
  { natsUrl, natsStream, sharedAnswers }: ProcessConfig,
  { logger, onShutdown }: ServiceContext,
): Promise<SharedAnswers | undefined> {
  if (!sharedAnswers) return undefined;
  const { sealingKey, maxBytes } = sharedAnswers;
  const bucket = await openJetStreamBucket(
    {
      url: natsUrl,
      clientName: 'weighbridge-data-plane-answers',
      setBy: 'NATS_STREAM_REPLICAS and RESPONSE_CACHE_SHARED_MAX_BYTES',
      onError: (error, what) => logger.warn({ err: error }, what),
    },
    answersBucket({ maxBytes, replicas: natsStream.replicas }),
  );
  onShutdown('shared answers', () => bucket.close());
  return { bucket, sealingKey };
}
