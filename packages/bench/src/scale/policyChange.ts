import { setTimeout as sleep } from 'node:timers/promises';
import { AMPLE_BUDGET, createPolicy, issueAll, issueKey, manage } from '../shared/service.ts';
import type { Lane } from './lane.ts';
import { withProxies } from './withProxies.ts';

const KEYS = 300;
const RATE = 60;
const SECONDS = 20;
const CHANGES = 5;

/** A company's policy above every key, changed while all of them are used. */
export const policyChange: Lane = {
  name: 'a company policy changes',
  size: `${KEYS} keys, ${RATE} requests/s, ${CHANGES} changes in ${SECONDS} s`,
  measure: (run, factor, onProgress) =>
    withProxies(run, 1, async (service, load) => {
      const company = await createPolicy(service, { name: 'company', ...AMPLE_BUDGET });
      const own = await createPolicy(service, { name: 'own', ...AMPLE_BUDGET, parent_policy_id: company });
      const keys = await issueAll(KEYS * factor, (at) => issueKey(service, `key-${at}`, own));
      onProgress('first use of each key');
      await load.once(keys);
      const rate = RATE * factor;
      onProgress(`${rate} requests/s without a change`);
      const calm = await load.open(keys, rate, SECONDS * 1_000);
      onProgress(`${rate} requests/s, with changes`);
      const changing = changeOften(async (at) => {
        const changed = { limit_micro_usd: AMPLE_BUDGET.limit_micro_usd - at - 1 };
        await manage(service.controlPlane, 'PATCH', `/api/v1/policies/${company}`, changed);
      });
      const [changed] = await Promise.all([load.open(keys, rate, SECONDS * 1_000), changing]);
      return {
        'p50 with changes, of that without': changed.ms.p50 / calm.ms.p50,
        'p99 with changes, of that without': changed.ms.p99 / calm.ms.p99,
        'failed requests': calm.failed + changed.failed,
      };
    }),
};

async function changeOften(change: (at: number) => Promise<void>): Promise<void> {
  for (let at = 0; at < CHANGES; at++) {
    await change(at);
    await sleep((SECONDS * 1_000) / (CHANGES + 1));
  }
}
