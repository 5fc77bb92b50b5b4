import { setTimeout as sleep } from 'node:timers/promises';
import type { TestRun } from '@weighbridge/testing';
import { Pool } from 'undici';
import { type Figure, formatFigure } from '../shared/figures.ts';
import { loadLine } from '../shared/machine.ts';
import { type Quantiles, quantiles } from '../shared/quantiles.ts';
import {
  AMPLE_BUDGET,
  createKey,
  createPolicy,
  manage,
  type RunningProxy,
  type Service,
  startProxy,
  startService,
} from '../shared/service.ts';
import { measureKnownKeys } from './knownKeys.ts';

const MAX_MS = 250;
const MAX_MICROS = 5;
const ROUNDS = 5;
const POLL_MS = 2;
const REVOKED_TIMEOUT_MS = 30_000;
/** Per proxy. */
const CONNECTIONS = 2;

export interface ControlOptions {
  readonly proxies: number;
  /** Number of keys to revoke, one after the other. */
  readonly keys: number;
  readonly onProgress: (text: string) => void;
}

export interface ControlFigures {
  readonly proxies: number;
  readonly keys: number;
  /** Milliseconds from the call that revokes a key until a proxy refuses it, for every key and proxy. */
  readonly refusedMs: Quantiles;
  /** The same until the last proxy refuses it. */
  readonly allRefuseMs: Quantiles;
  /** Calls to the control plane per key and proxy: on the first request with a key, and on the second. */
  readonly callsOfUnknown: number;
  readonly callsOfKnown: number;
  /** Microseconds of CPU to authenticate with a known key. */
  readonly knownMicros: Figure;
  readonly load: string;
}

/** Measures how long proxies still serve a revoked key, and how often they call the control plane for a key. */
export async function measureControl(
  run: TestRun,
  { proxies, keys, onProgress }: ControlOptions,
): Promise<ControlFigures> {
  const knownMicros = await measureKnownKeys(ROUNDS);
  const service = await startService(run, 'proxy/fastVendor');
  const running: RunningProxy[] = [];
  const pools: Pool[] = [];
  try {
    onProgress(`starting ${proxies} proxies`);
    for (let at = 0; at < proxies; at++) running.push(await startProxy(run, service, `proxy-${at}`));
    pools.push(...running.map(({ url }) => new Pool(url, { connections: CONNECTIONS })));
    const policyId = await createPolicy(service, { name: 'bench', ...AMPLE_BUDGET });
    const refused: number[] = [];
    const allRefused: number[] = [];
    const calls = { unknown: 0, known: 0 };
    for (let at = 0; at < keys; at++) {
      onProgress(`key ${at + 1} of ${keys}`);
      const { id, secret } = await createKey(service, `key-${at}`, policyId);
      calls.unknown += await requestFromAll(running, pools, secret);
      calls.known += await requestFromAll(running, pools, secret);
      const delays = await timeRevocation(service, id, pools, secret);
      refused.push(...delays);
      allRefused.push(Math.max(...delays));
    }
    return {
      proxies,
      keys,
      refusedMs: quantiles(refused),
      allRefuseMs: quantiles(allRefused),
      callsOfUnknown: calls.unknown / (keys * proxies),
      callsOfKnown: calls.known / (keys * proxies),
      knownMicros,
      load: loadLine(),
    };
  } finally {
    for (const pool of pools) await pool.close();
    for (const { process } of running) await process.stop();
    await service.close();
  }
}

export function describeControl(figures: ControlFigures): string {
  const { proxies, keys, refusedMs, allRefuseMs, callsOfUnknown, callsOfKnown, knownMicros, load } = figures;
  const text = ({ p50, p99, max }: Quantiles) =>
    `p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, slowest ${max.toFixed(0)} ms`;
  return [
    `${keys} keys, ${proxies} proxies; ${load}`,
    `from the call that revokes a key until a proxy refuses it: ${text(refusedMs)}; p99 at most ${MAX_MS}`,
    `until all proxies refuse it: ${text(allRefuseMs)}`,
    `calls to the control plane for an unknown key: ${callsOfUnknown}, for a known key: ${callsOfKnown}`,
    `to authenticate with a known key: ${formatFigure(knownMicros, 2)} µs of CPU, at most ${MAX_MICROS}`,
    'every proxy served every key before its revocation, and refused it afterwards',
  ].join('\n');
}

/** Whether each target of this scenario is reached. */
export function controlHolds({ refusedMs, callsOfUnknown, callsOfKnown, knownMicros }: ControlFigures): {
  readonly known: boolean;
  readonly revocation: boolean;
  readonly calls: boolean;
} {
  return {
    known: knownMicros.median <= MAX_MICROS,
    revocation: refusedMs.p99 <= MAX_MS,
    calls: callsOfUnknown === 1 && callsOfKnown === 0,
  };
}

/** Sends one request with the key to every proxy, and returns how many look-ups they made. Throws unless all serve it. */
async function requestFromAll(
  proxies: readonly RunningProxy[],
  pools: readonly Pool[],
  secret: string,
): Promise<number> {
  const counts = await Promise.all(
    pools.map(async (pool, index) => {
      const metricsUrl = proxies[index]?.metricsUrl ?? '';
      const before = await lookUpCount(metricsUrl);
      const status = await sendRequest(pool, secret);
      if (status !== 200) throw new Error(`a proxy answered ${status} to a valid key`);
      return (await lookUpCount(metricsUrl)) - before;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Revokes a key. Returns the milliseconds until each proxy refuses it. */
async function timeRevocation(
  { controlPlane }: Service,
  id: string,
  pools: readonly Pool[],
  secret: string,
): Promise<number[]> {
  const start = performance.now();
  const revoking = manage(controlPlane, 'DELETE', `/api/v1/keys/${id}`);
  const refusals = pools.map(async (pool) => {
    for (;;) {
      const status = await sendRequest(pool, secret);
      const tookMs = performance.now() - start;
      if (status === 401) return tookMs;
      if (status !== 200) throw new Error(`a proxy answered ${status} to a key that is being revoked`);
      if (tookMs > REVOKED_TIMEOUT_MS) throw new Error('a proxy still serves a revoked key');
      await sleep(POLL_MS);
    }
  });
  const [, ...delays] = await Promise.all([revoking, ...refusals]);
  return delays;
}

async function sendRequest(pool: Pool, secret: string): Promise<number> {
  const headers = { authorization: `Bearer ${secret}` };
  const { statusCode, body } = await pool.request({ method: 'GET', path: '/v1/models', headers });
  await body.dump();
  return statusCode;
}

/** How many unknown keys the proxy has looked up so far. */
async function lookUpCount(metricsUrl: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const [, misses] = /^weighbridge_key_lookups_total\{[^}]*met="miss"[^}]*\} (\d+)/m.exec(text) ?? [];
  return Number(misses ?? 0);
}
