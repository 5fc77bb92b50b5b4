import { readFileSync } from 'node:fs';
import { openJetStreamUsageStream } from '@weighbridge/bus';
import { listenHttp, runService } from '@weighbridge/runtime';
import { loadConfig, loadProcessConfig } from './config.ts';
import { startDataPlane } from './dataPlane.ts';
import { openPinBucket } from './pins/pinBucket.ts';

const exitCode = await runService('data-plane', async (context) => {
  const { logger, onShutdown } = context;
  const { natsUrl, natsStream, http, shutdownGraceMs, logLevel } = loadProcessConfig(process.env);
  const config = loadConfig(process.env);
  logger.level = logLevel;
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const onError = (error: unknown, what: string) => logger.warn({ err: error }, what);
  const stream = await openJetStreamUsageStream({
    url: natsUrl,
    ...natsStream,
    name: 'weighbridge-data-plane',
    onError,
  });
  onShutdown('usage stream', () => stream.close());
  const pinBucket = await openPinBucket(config.pins, { natsUrl, onError });
  onShutdown('session pins', () => pinBucket.close());
  const dataPlane = await startDataPlane(
    config,
    { stream, pinBucket, now: () => new Date(), version },
    context,
  );
  const server = await listenHttp({ handler: dataPlane.handler, ...http, portSetting: 'PORT' });
  dataPlane.closeFirst(server, shutdownGraceMs);
  logger.info({ url: server.url }, 'the data plane is ready');
});
process.exit(exitCode);
