import { AMPLE_BUDGET, createPolicy, issueAll, issueKey } from '../shared/service.ts';
import type { Lane } from './lane.ts';
import { controlCalls } from './scaleLoad.ts';
import { withProxies } from './withProxies.ts';

const KEYS = 300;
const PROXIES = 2;
/** The time after which a key comes back to a proxy: longer than the minute for which proxies used to know a key. */
const RETURNS_AFTER_MS = 75_000;

/** Traffic of many keys, each of which is seldom used: what it asks of the control plane. */
export const sparseKeys: Lane = {
  name: 'sparse keys',
  size: `${KEYS} keys, ${PROXIES} proxies, each key at each proxy once in ${RETURNS_AFTER_MS / 1_000} s`,
  measure: (run, factor, onProgress) =>
    withProxies(run, PROXIES, async (service, load) => {
      const policyId = await createPolicy(service, { name: 'company', ...AMPLE_BUDGET });
      const keys = await issueAll(KEYS * factor, (at) => issueKey(service, `key-${at}`, policyId));
      onProgress('first use of each key');
      await load.once(keys);
      const rate = (keys.length * PROXIES * 1_000) / RETURNS_AFTER_MS;
      onProgress(`${rate} requests/s, until each key was used again`);
      // What was leased for a first use is returned once.
      await load.open(keys, rate, RETURNS_AFTER_MS);
      const before = await calls(service);
      onProgress(`${rate} requests/s`);
      const { requests, failed } = await load.open(keys, rate, 2 * RETURNS_AFTER_MS);
      const after = await calls(service);
      const each = (call: keyof typeof before) => ((after[call] - before[call]) * 1_000) / requests;
      return {
        'look-ups of 1,000 requests': each('resolve'),
        'lease calls of 1,000 requests': each('lease'),
        'failed requests': failed,
      };
    }),
};

async function calls({ controlPlane }: Parameters<typeof createPolicy>[0]) {
  return {
    resolve: await controlCalls(controlPlane, 'resolve', 'resolveKeys'),
    lease: await controlCalls(controlPlane, 'lease'),
  };
}
