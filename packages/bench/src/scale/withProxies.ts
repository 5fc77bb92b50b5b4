import type { TestRun } from '@weighbridge/testing';
import { type RunningProxy, type Service, startProxy, startService } from '../shared/service.ts';
import { ScaleLoad } from './scaleLoad.ts';

/** A whole service with some proxies, and a load for them; all of it is stopped at the end. */
export async function withProxies<Result>(
  run: TestRun,
  count: number,
  use: (service: Service, load: ScaleLoad) => Promise<Result>,
): Promise<Result> {
  const service = await startService(run, 'shared/mockVendor');
  const proxies: RunningProxy[] = [];
  try {
    for (let at = 0; at < count; at++) proxies.push(await startProxy(run, service, `proxy-${at}`));
    const load = new ScaleLoad(proxies);
    try {
      return await use(service, load);
    } finally {
      await load.close();
    }
  } finally {
    for (const { process } of proxies) await process.stop();
    await service.close();
  }
}

/** Issues this many, a few at once. In the order of their numbers. */
export async function issueAll<Result>(
  count: number,
  issue: (at: number) => Promise<Result>,
): Promise<Result[]> {
  const issued: Result[] = new Array(count);
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < count; at = next++) issued[at] = await issue(at);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return issued;
}

/** Calls of the operator API at once. */
const AT_ONCE = 8;
