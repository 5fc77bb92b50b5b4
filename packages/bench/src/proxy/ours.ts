import { fileURLToPath } from 'node:url';
import type { TestRun } from '@weighbridge/testing';
import {
  AMPLE_BUDGET,
  createPolicy,
  issueKey,
  type RunningProxy,
  type Service,
  startProxy,
} from '../service.ts';
import { CHAT_PATH, type Contender, EVERY_GROUP, type Group } from './contender.ts';
import type { Cores } from './cores.ts';

export const OURS = 'Weighbridge';
const WITHOUT_SPOOL = fileURLToPath(new URL('../../dist/withoutSpool.js', import.meta.url));
/** Limits by the minute that nobody reaches. */
const AMPLE_RATES = {
  requests_per_minute: 2_000_000_000,
  tokens_per_minute: 2_000_000_000,
  max_parallel: 1_000_000,
};
/** Calls of the operator API at once. */
const AT_ONCE = 8;
const GROWTH = [1, 10, 100] as const;

export interface Ours {
  readonly contenders: readonly Contender[];
  readonly proxies: readonly RunningProxy[];
}

export interface OursOptions {
  readonly cores: Cores;
  readonly keys: number;
  /** Whether there are others than the one with everything on. */
  readonly hasParts: boolean;
  /** Of that one. */
  readonly nodeArgs?: readonly string[];
}

/**
 * Real proxies of a real service: one with everything on, the same without what a policy turns off, one without its spool,
 * and a pair that shares the load. A key has a policy of its own, and that a parent.
 */
export async function startOurs(run: TestRun, service: Service, options: OursOptions): Promise<Ours> {
  const { cores, keys, hasParts } = options;
  const most = hasParts ? keys * (GROWTH.at(-1) ?? 1) : keys;
  const parent = await createPolicy(service, { name: 'company', ...AMPLE_BUDGET });
  const own = { ...AMPLE_BUDGET, ...AMPLE_RATES, parent_policy_id: parent };
  const tokens = await issueKeysOf(service, 'key', most, own);
  const proxies: RunningProxy[] = [];
  try {
    const start = async (name: string, more: Parameters<typeof startProxy>[3]) => {
      const proxy = await startProxy(run, service, name, { core: cores.proxy, ...more });
      proxies.push(proxy);
      return proxy;
    };
    const main = await start('main', { nodeArgs: options.nodeArgs ?? [] });
    const whole = contender(OURS, main, tokens.slice(0, keys), EVERY_GROUP);
    if (!hasParts) return { contenders: [whole], proxies };

    const noRates = { ...AMPLE_BUDGET, parent_policy_id: parent };
    const unlimited = await issueKeysOf(service, 'unrated', keys, noRates);
    const unbudgeted = await issueKeysOf(service, 'unbudgeted', keys, AMPLE_RATES);
    const spoolless = await start('spoolless', { nodeArgs: ['--import', WITHOUT_SPOOL] });
    const pair = await start('pair', { core: cores.pair, processes: 2 });
    return {
      proxies,
      contenders: [
        whole,
        contender(`${OURS} without rate limits`, main, unlimited, ['plain']),
        contender(`${OURS} without budgets`, main, unbudgeted, ['plain']),
        contender(`${OURS} without its spool`, spoolless, tokens.slice(0, keys), ['plain']),
        contender(`${OURS}, two processes`, pair, tokens.slice(0, keys), ['plain']),
        ...GROWTH.map((times) =>
          contender(keysName(keys * times), main, tokens.slice(0, keys * times), ['keys']),
        ),
      ],
    };
  } catch (error) {
    for (const proxy of proxies) await proxy.process.stop();
    throw error;
  }
}

/** Contenders of the growing numbers of keys are told apart by this. */
export function keysName(keys: number): string {
  return `${OURS}, ${keys} ${keys === 1 ? 'key' : 'keys'} and policies in turns`;
}

function contender(
  name: string,
  proxy: RunningProxy,
  tokens: readonly string[],
  groups: readonly Group[],
): Contender {
  return {
    name,
    url: proxy.url,
    path: CHAT_PATH,
    headers: {},
    tokens,
    expects: 'same bytes',
    groups,
    pid: proxy.process.pid,
    isOurs: true,
  };
}

/** Each with a policy of its own. */
async function issueKeysOf(
  service: Service,
  kind: string,
  count: number,
  settings: object,
): Promise<string[]> {
  const tokens: string[] = new Array(count);
  let next = 0;
  const work = async () => {
    for (let at = next++; at < count; at = next++) {
      const name = `${kind}-${at}`;
      tokens[at] = await issueKey(service, name, await createPolicy(service, { name, ...settings }));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return tokens;
}
