import { AMPLE_BUDGET, createPolicy, issueAll, issueKey } from '../shared/service.ts';
import type { Lane } from './lane.ts';
import type { ScaleLoad } from './scaleLoad.ts';
import { withProxies } from './withProxies.ts';

const CONTENDERS = 30;
const PROXIES = 4;
const OTHERS = 20;
/** Small, so that each lease is soon used up and every proxy asks again and again. */
const CONTENDED = { limit_micro_usd: 50_000, window: 'month', counter_scope: 'policy' };
const SECONDS = 10;
const RATE = 100;

/** One budget that all proxies ask for again and again: what keys of other budgets wait. */
export const contendedBudget: Lane = {
  name: 'a contended budget',
  size: `${CONTENDERS} keys on one budget, ${RATE} requests/s, ${PROXIES} proxies`,
  measure: (run, factor, onProgress) =>
    withProxies(run, PROXIES, async (service, load) => {
      const contended = await createPolicy(service, { name: 'contended', ...CONTENDED });
      const keys = await issueAll(CONTENDERS * factor, (at) =>
        issueKey(service, `contender-${at}`, contended),
      );
      const newKeys = (name: string) =>
        issueAll(OTHERS, async (at) => {
          const own = await createPolicy(service, { name: `${name}-${at}`, ...AMPLE_BUDGET });
          return await issueKey(service, `${name}-${at}`, own);
        });
      onProgress('first requests of keys, with nothing beside');
      const [alone, beside] = [await newKeys('alone'), await newKeys('beside')];
      const calm = await firstRequests(load, alone);
      onProgress('first requests of keys, beside a contended budget');
      const contending = load.open(keys, RATE * factor, SECONDS * 1_000);
      const busy = await firstRequests(load, beside);
      await contending;
      return {
        'first request of another key, p50, of that with nothing beside': busy.ms.p50 / calm.ms.p50,
        'failed requests of other keys': calm.failed + busy.failed,
      };
    }),
};

/** One after the other, over the time that the load runs. */
function firstRequests(load: ScaleLoad, keys: readonly string[]) {
  return load.open(keys, keys.length / (SECONDS - 2), (SECONDS - 2) * 1_000);
}
