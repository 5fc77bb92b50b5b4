import { dirname, join } from 'node:path';
import { loadConfig, openPinBucket, refusalResponse, startDataPlane } from '@weighbridge/data-plane';
import { createMetrics, ensureFolder, listenHttp, runService } from '@weighbridge/runtime';
import type { RelayRequest } from './relay.ts';
import { createRelayedStream } from './relayedStream.ts';

/** A proxy of the demo as a process of its own, so that it can be killed. It ends with its parent. */
async function main(): Promise<void> {
  const { env } = process;
  const code = await runService('data-plane', async (context) => {
    context.logger.level = 'error';
    process.once('disconnect', () => context.fail(new Error('the demo has ended')));
    const config = loadConfig(env);
    const onError = (error: unknown, what: string) => context.logger.warn({ err: error }, what);
    const folder = dirname(config.spool.dir);
    await ensureFolder(folder);
    const path = join(folder, 'session-pins');
    const pinBucket = await openPinBucket(config.pins, { store: { path }, onError });
    context.onShutdown('session pins', () => pinBucket.close());
    const deps = { stream: createRelayedStream(), pinBucket, now: () => new Date() };
    const metrics = createMetrics();
    const version = env.WEIGHBRIDGE_VERSION ?? '';
    const dataPlane = await startDataPlane(config, { ...deps, version, metrics }, context);
    const server = await listenHttp({
      handler: dataPlane.handler,
      host: '127.0.0.1',
      port: 0,
      portSetting: 'PORT',
      errorResponse: refusalResponse,
      metrics,
    });
    dataPlane.closeFirst(server, { delayMs: 0, graceMs: 2_000 });
    process.send?.({ op: 'ready', url: server.url } satisfies RelayRequest);
  });
  process.exit(code);
}

await main();
