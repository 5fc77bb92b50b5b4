import { setTimeout as sleep } from 'node:timers/promises';
import type { TestRun } from '@weighbridge/testing';
import { Pool } from 'undici';
import { createLoad } from '../shared/load.ts';
import { loadLine } from '../shared/machine.ts';
import {
  issueKeys,
  type StartedNode,
  startBenchProgram,
  startProxy,
  startService,
} from '../shared/service.ts';

const CONNECTIONS = 64;
const PROBES_PER_SECOND = 10;
/** Pause between two requests for the report. */
const POLL_MS = 10;
const VISIBLE_TIMEOUT_MS = 30_000;
const WARM_UP_MS = 3_000;
const MAX_MS = 1_000;

export interface VisibleOptions {
  /** Requests per second, whatever happens to earlier ones. */
  readonly rate: number;
  readonly seconds: number;
  /** Whether another process syncs the same disk all the time. */
  readonly isDiskBusy?: boolean;
  readonly onProgress: (text: string) => void;
}

export interface VisibleFigures {
  readonly rate: number;
  readonly isDiskBusy: boolean;
  /** Responses per second that were reached. */
  readonly reachedRate: number;
  readonly probes: number;
  /** Milliseconds from the end of a response until the usage report has its cost. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly load: string;
}

/**
 * Measures how long it takes until the usage report has the cost of a response, through a real proxy, NATS, metering and
 * Postgres under load. Each probe has its own key and principal, so its report shows its cost and nothing else.
 */
export async function measureVisible(run: TestRun, options: VisibleOptions): Promise<VisibleFigures> {
  const { rate, seconds, isDiskBusy = false, onProgress } = options;
  const service = await startService(run, 'shared/mockVendor');
  try {
    onProgress('issuing keys');
    const names = Array.from({ length: seconds * PROBES_PER_SECOND }, (_, at) => `probe-${at}`);
    const [key = '', ...probeKeys] = await issueKeys(service, ['load', ...names]);
    const proxy = await startProxy(run, service, 'proxy');
    const isRight = (body: string) => body.includes('What does a weighbridge weigh?');
    const load = createLoad(proxy.url, { key, connections: CONNECTIONS, isRight });
    let disk: StartedNode | undefined;
    const reports = new Pool(service.controlPlane.url, { connections: 16 });
    try {
      onProgress('warming up');
      // The proxy knows the keys, like those of returning clients.
      const proxyPool = new Pool(proxy.url, { connections: 4 });
      for (const probeKey of probeKeys) await lookUpKey(proxyPool, probeKey);
      await proxyPool.close();
      await load.open(rate / 2, WARM_UP_MS);
      if (isDiskBusy) disk = await startBenchProgram(run, 'visible/diskSyncer', { args: [run.folder] });
      onProgress(`${seconds} s at ${rate} requests/s${isDiskBusy ? ', with a busy disk' : ''}`);
      const loading = load.open(rate, seconds * 1_000);
      // `Promise.all` below reports the rejection.
      loading.catch(() => {});
      const probing: Promise<number>[] = [];
      for (const probeKey of probeKeys) {
        const probe = createLoad(proxy.url, { key: probeKey, connections: 1, isRight });
        probing.push(measureOne(probe, reports, probeKey).finally(() => probe.close()));
        await sleep(1_000 / PROBES_PER_SECOND);
      }
      const [reachedRate, ...delays] = await Promise.all([loading, ...probing]);
      const sorted = delays.toSorted((a, b) => a - b);
      const share = (part: number) => percentile(sorted, part);
      return {
        rate,
        isDiskBusy,
        reachedRate,
        probes: sorted.length,
        p50Ms: share(0.5),
        p99Ms: share(0.99),
        maxMs: share(1),
        load: loadLine(),
      };
    } finally {
      await disk?.process.stop();
      await load.close();
      await reports.close();
      await proxy.process.stop();
    }
  } finally {
    await service.close();
  }
}

/** Of sorted figures: the least that this share of them does not exceed. So p99 of a hundred is not the slowest of them. */
export function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
}

export function describeVisible(figures: VisibleFigures): string {
  const { rate, isDiskBusy, reachedRate, probes, p50Ms, p99Ms, maxMs, load } = figures;
  return [
    `${reachedRate.toFixed(0)} of ${rate} requests/s were reached${isDiskBusy ? ', while another process synced the disk' : ''}; ${load}`,
    `from the end of a response until the usage report has its cost, ${probes} probes:`,
    `p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms (at most ${MAX_MS}), slowest ${maxMs.toFixed(0)} ms`,
    'every response was right, and every probe was charged the cost that its response reported',
  ].join('\n');
}

async function lookUpKey(proxy: Pool, key: string): Promise<void> {
  const headers = { authorization: `Bearer ${key}` };
  const { statusCode, body } = await proxy.request({ method: 'GET', path: '/v1/models', headers });
  await body.dump();
  if (statusCode !== 200) throw new Error(`the list of models answered ${statusCode}`);
}

/** Milliseconds from the end of the response until the report has its cost. */
async function measureOne(probe: ReturnType<typeof createLoad>, reports: Pool, key: string): Promise<number> {
  const cost = await probe.sendOne();
  const endedAt = performance.now();
  for (;;) {
    const { statusCode, body } = await reports.request({
      method: 'GET',
      path: '/api/v1/usage',
      headers: { authorization: `Bearer ${key}` },
    });
    const text = await body.text();
    const tookMs = performance.now() - endedAt;
    if (statusCode !== 200) throw new Error(`the usage report answered ${statusCode}: ${text}`);
    const spent = (JSON.parse(text) as { bucket_spent_micro_usd: number }).bucket_spent_micro_usd;
    if (spent > 0) {
      if (spent !== cost) throw new Error(`the report says ${spent} micro-USD, the response said ${cost}`);
      return tookMs;
    }
    if (tookMs > VISIBLE_TIMEOUT_MS) throw new Error('the report still lacks the cost of a response');
    await sleep(POLL_MS);
  }
}
