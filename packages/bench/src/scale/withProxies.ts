import type { TestRun } from '@weighbridge/testing';
import { type RunningProxy, type Service, startProxy, startService } from '../shared/service.ts';
import { ScaleLoad } from './scaleLoad.ts';

/** A whole service with some proxies, and a load for them; all of it is stopped at the end. */
export async function withProxies<Result>(
  run: TestRun,
  count: number,
  use: (service: Service, load: ScaleLoad, proxies: readonly RunningProxy[]) => Promise<Result>,
): Promise<Result> {
  const service = await startService(run, 'shared/mockVendor');
  const proxies: RunningProxy[] = [];
  try {
    for (let at = 0; at < count; at++) proxies.push(await startProxy(run, service, `proxy-${at}`));
    const load = new ScaleLoad(proxies);
    try {
      return await use(service, load, proxies);
    } finally {
      await load.close();
    }
  } finally {
    for (const { process } of proxies) await process.stop();
    await service.close();
  }
}
