import type { TestRun } from '@weighbridge/testing';
import type { Bar } from '../proxy/bars.ts';
import { byRound } from '../proxy/bars.ts';
import type { Other } from '../proxy/contender.ts';
import { nginx } from '../proxy/nginx.ts';
import { FEW_CALLERS, FIRST_EVENT, ONE_CALLER, PLAIN } from '../proxy/plan.ts';
import { portkey } from '../proxy/portkey.ts';
import { measureProxy, type ProxyFigures, type ProxyOptions } from '../proxy/proxy.ts';
import type { Cell, Round } from '../proxy/rounds.ts';
import { OURS } from '../proxy/weighbridge.ts';
import { busbar } from './busbar.ts';
import { goModel } from './goModel.ts';
import { liteLlm } from './liteLlm.ts';

export const PEERS: readonly Other[] = [
  nginx,
  busbar('governed'),
  busbar('open'),
  goModel('with a budget'),
  goModel('without budgets'),
  portkey,
  liteLlm,
  ...['Bifrost', 'agentgateway'].map(notStarted),
];

/** A peer that the benchmark has no settings for. */
function notStarted(name: string): Other {
  const reason =
    'the benchmark does not start it: start it on the first core, with its own settings, and give its --url and --pid';
  return { name, start: async () => ({ name, reason }) };
}

const LANES = ['caller', 'first', 'c8', 'c32'] as const;

type PeersOptions = Omit<ProxyOptions, 'others' | 'hasParts'> & { readonly cacheFolder: string };

/** Measures Weighbridge beside other gateways, each on the same core and with the same vendor. */
export async function measurePeers(
  run: TestRun,
  { cacheFolder, ...options }: PeersOptions,
): Promise<ProxyFigures> {
  return await measureProxy(run, {
    ...options,
    lanes: options.lanes ?? LANES,
    hasParts: false,
    others: { cacheFolder, list: PEERS },
  });
}

/** Installs what the peers need from the network, before that is hidden. */
export async function preparePeers(cacheFolder: string, onProgress: (text: string) => void): Promise<void> {
  for (const { name, prepare } of PEERS) {
    if (!prepare) continue;
    onProgress(`preparing ${name}`);
    // Its start reports it too.
    await prepare(cacheFolder).catch((error) => onProgress(`${name}: ${error}`));
  }
}

type Metric = (round: Round) => number;

const COMPARED: readonly (readonly [string, { readonly name: string }, Metric])[] = [
  ['one caller, p50', ONE_CALLER, ({ p50Ms }) => p50Ms],
  ['one caller, p99', ONE_CALLER, ({ p99Ms }) => p99Ms],
  ['first event, p50', FIRST_EVENT, ({ firstByteP50Ms }) => firstByteP50Ms],
  ['first event, p99', FIRST_EVENT, ({ firstByteP99Ms }) => firstByteP99Ms],
  ['8 connections, CPU', FEW_CALLERS, ({ cpuMicros }) => cpuMicros],
  ['8 connections, p99', FEW_CALLERS, ({ p99Ms }) => p99Ms],
  ['32 connections, CPU', PLAIN, ({ cpuMicros }) => cpuMicros],
  ['32 connections, p99', PLAIN, ({ p99Ms }) => p99Ms],
  ['32 connections, time per request', PLAIN, ({ requestsPerSecond }) => 1 / requestsPerSecond],
];

/** Whether Weighbridge is first of the gateways that count, lane by lane. */
export function peerBars({ cells, governed }: ProxyFigures): Bar[] {
  return COMPARED.map(([what, workload, metric]) => {
    const of = (contender: string): Cell | undefined =>
      cells.find((one) => one.contender === contender && one.workload === workload.name);
    const best = governed
      .filter((name) => name !== OURS)
      .flatMap((name) => {
        const ratio = byRound([of(OURS), of(name)], ([ours, theirs]) => metric(ours) / metric(theirs));
        return ratio ? [{ name, ratio: ratio.median }] : [];
      })
      .sort((a, b) => b.ratio - a.ratio)[0];
    return {
      what: `${what}, of the best other with keys and budgets`,
      bar: 'at most 1',
      measured: best && `${best.ratio.toFixed(2)} of ${best.name}`,
      isReached: best && best.ratio <= 1,
    };
  });
}
