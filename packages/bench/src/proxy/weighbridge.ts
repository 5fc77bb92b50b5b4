import { fileURLToPath } from 'node:url';
import type { TestRun } from '@weighbridge/testing';
import {
  AMPLE_BUDGET,
  createPolicy,
  issueAll,
  issueKey,
  type RunningProxy,
  type Service,
  startProxy,
} from '../shared/service.ts';
import { CHAT_PATH, type Contender, EVERY_GROUP, type Group, onShippedNode } from './contender.ts';
import type { Cores } from './cores.ts';

export const OURS = 'Weighbridge';
/** Two processes that share a port. */
export const IN_PAIR = `${OURS}, two processes`;
const USE_IN_MEMORY_SPOOL = fileURLToPath(new URL('../../dist/proxy/useInMemorySpool.js', import.meta.url));
/** Rate limits that no benchmark reaches. */
const AMPLE_RATES = {
  requests_per_minute: 2_000_000_000,
  tokens_per_minute: 2_000_000_000,
  max_parallel: 1_000_000,
};
const PAIR = 2;
const GROWTH = [1, 10, 100] as const;

export interface RunningWeighbridge {
  readonly contenders: readonly Contender[];
  readonly proxies: readonly RunningProxy[];
}

export interface WeighbridgeOptions {
  readonly cores: Cores;
  readonly keys: number;
  /** Whether to start further contenders than the one with everything on. */
  readonly hasParts: boolean;
  /** Whether to start two processes that share a port. Default: as `hasParts`. */
  readonly hasPair?: boolean;
  readonly nodeArgs?: readonly string[];
  /** Whether these load the observer. */
  readonly isObserved?: boolean;
}

type ProxyStart = NonNullable<Parameters<typeof startProxy>[3]>;

/**
 * Starts real proxies of a real service: one with everything on (also measured with keys without rate limits or budgets),
 * one without its spool, and a pair that shares the load. Each key has its own policy, which has a parent.
 */
export async function startWeighbridge(
  run: TestRun,
  service: Service,
  options: WeighbridgeOptions,
): Promise<RunningWeighbridge> {
  const { cores, keys, hasParts, hasPair = hasParts } = options;
  const keyCount = hasParts ? keys * (GROWTH.at(-1) ?? 1) : keys;
  const parent = await createPolicy(service, { name: 'company', ...AMPLE_BUDGET });
  const own = { ...AMPLE_BUDGET, ...AMPLE_RATES, parent_policy_id: parent };
  const tokens = await issueKeysOf(service, 'key', keyCount, own);
  const proxies: RunningProxy[] = [];
  try {
    const start = async (name: string, more: ProxyStart = {}) => {
      const nodeArgs = [...(options.nodeArgs ?? []), ...(more.nodeArgs ?? [])];
      const proxy = await startProxy(run, service, name, { core: cores.proxy, ...more, nodeArgs });
      proxies.push(proxy);
      return proxy;
    };
    const main = await start('main');
    const contender = (name: string, proxy: RunningProxy, of: readonly string[], groups: readonly Group[]) =>
      weighbridge(name, proxy, { tokens: of, groups, isObserved: options.isObserved === true });
    const always = [contender(OURS, main, tokens.slice(0, keys), EVERY_GROUP)];
    const inPair = async (): Promise<Contender> => {
      const pair = await start('pair', { core: cores.pair, processes: PAIR });
      return { ...contender(IN_PAIR, pair, tokens.slice(0, keys), ['plain']), processes: PAIR };
    };
    if (!hasParts) return { contenders: hasPair ? [...always, await inPair()] : always, proxies };

    const noRates = { ...AMPLE_BUDGET, parent_policy_id: parent };
    const unlimited = await issueKeysOf(service, 'unrated', keys, noRates);
    const unbudgeted = await issueKeysOf(service, 'unbudgeted', keys, AMPLE_RATES);
    const spoolless = await start('spoolless', { nodeArgs: ['--import', USE_IN_MEMORY_SPOOL] });
    return {
      proxies,
      contenders: [
        ...always,
        contender(`${OURS} without rate limits`, main, unlimited, ['plain']),
        contender(`${OURS} without budgets`, main, unbudgeted, ['plain']),
        contender(`${OURS} without its spool`, spoolless, tokens.slice(0, keys), ['plain']),
        await inPair(),
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

/** The name of the contender with this number of keys. */
export function keysName(keys: number): string {
  return `${OURS}, ${keys} ${keys === 1 ? 'key' : 'keys'} and policies in turns`;
}

function weighbridge(
  name: string,
  proxy: RunningProxy,
  { tokens, groups, isObserved }: Required<Pick<Contender, 'tokens' | 'groups' | 'isObserved'>>,
): Contender {
  return {
    name,
    url: proxy.url,
    path: CHAT_PATH,
    headers: {},
    tokens,
    expects: 'same bytes',
    groups,
    ...onShippedNode(proxy.process.pid),
    metricsUrl: proxy.metricsUrl,
    isObserved,
    isGoverned: true,
    isOurs: true,
  };
}

/** Issues keys, each on its own policy. */
async function issueKeysOf(
  service: Service,
  kind: string,
  count: number,
  settings: object,
): Promise<string[]> {
  return await issueAll(count, async (at) => {
    const name = `${kind}-${at}`;
    return await issueKey(service, name, await createPolicy(service, { name, ...settings }));
  });
}
