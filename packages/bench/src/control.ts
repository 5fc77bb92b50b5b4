import { setTimeout as sleep } from 'node:timers/promises';
import type { TestRun } from '@weighbridge/testing';
import { Pool } from 'undici';
import { type Figure, formatFigure } from './figures.ts';
import { measureKnownKeys } from './knownKeys.ts';
import { loadLine } from './machine.ts';
import { type Quantiles, quantiles } from './quantiles.ts';
import {
  AMPLE_BUDGET,
  createKey,
  createPolicy,
  manage,
  type RunningProxy,
  type Service,
  startProxy,
  startService,
} from './service.ts';

const MOST_MS = 250;
const MOST_MICROS = 5;
const ROUNDS = 5;
const LOOK_MS = 2;
const REVOKED_TIMEOUT_MS = 30_000;
/** Of each proxy's own probes. */
const CONNECTIONS = 2;

export interface ControlOptions {
  readonly proxies: number;
  /** How many are revoked, one after the other. */
  readonly keys: number;
  readonly onProgress: (text: string) => void;
}

export interface ControlFigures {
  readonly proxies: number;
  readonly keys: number;
  /** Milliseconds from the call that revokes a key until a proxy refuses it, of every key at every proxy. */
  readonly refusedMs: Quantiles;
  /** Until the last of them does. */
  readonly allRefuseMs: Quantiles;
  /** How many calls proxies made for keys that they did not know, and for those that they knew. */
  readonly callsOfUnknown: number;
  readonly callsOfKnown: number;
  /** Microseconds of CPU to authenticate by a key that is known. */
  readonly knownMicros: Figure;
  readonly load: string;
}

/** How long a revoked key is still served, with as many proxies; and what a proxy asks of the control plane for a key. */
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
    const allRefuse: number[] = [];
    const calls = { unknown: 0, known: 0 };
    for (let at = 0; at < keys; at++) {
      onProgress(`key ${at + 1} of ${keys}`);
      const { id, secret } = await createKey(service, `key-${at}`, policyId);
      calls.unknown += await askAll(pools, secret);
      calls.known += await askAll(pools, secret);
      const delays = await revoke(service, id, pools, secret);
      refused.push(...delays);
      allRefuse.push(Math.max(...delays));
    }
    return {
      proxies,
      keys,
      refusedMs: quantiles(refused),
      allRefuseMs: quantiles(allRefuse),
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
  const said = ({ p50, p99, max }: Quantiles) =>
    `p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, slowest ${max.toFixed(0)} ms`;
  return [
    `${keys} keys, ${proxies} proxies; ${load}`,
    `from the call that revokes a key until a proxy refuses it: ${said(refusedMs)}; p99 at most ${MOST_MS}`,
    `until all of them do: ${said(allRefuseMs)}`,
    `calls of the control plane for a key that a proxy does not know: ${callsOfUnknown}, that it knows: ${callsOfKnown}`,
    `to authenticate by a key that is known: ${formatFigure(knownMicros, 2)} µs of CPU, at most ${MOST_MICROS}`,
    'every proxy served every key before, and refused it afterwards',
  ].join('\n');
}

/** The bars of this scenario, and whether they are reached. */
export function controlHolds({ refusedMs, callsOfUnknown, callsOfKnown, knownMicros }: ControlFigures): {
  readonly known: boolean;
  readonly revocation: boolean;
  readonly calls: boolean;
} {
  return {
    known: knownMicros.median <= MOST_MICROS,
    revocation: refusedMs.p99 <= MOST_MS,
    calls: callsOfUnknown === 1 && callsOfKnown === 0,
  };
}

/** Every proxy serves the key; resolves with how many look-ups that took in all. */
async function askAll(pools: readonly Pool[], secret: string): Promise<number> {
  const counts = await Promise.all(
    pools.map(async (pool) => {
      const before = await lookUps(pool);
      const status = await ask(pool, secret);
      if (status !== 200) throw new Error(`a proxy answers ${status} to a key that is valid`);
      return (await lookUps(pool)) - before;
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Milliseconds until each proxy refuses it. */
async function revoke(
  { controlPlane }: Service,
  id: string,
  pools: readonly Pool[],
  secret: string,
): Promise<number[]> {
  const start = performance.now();
  const revoking = manage(controlPlane, 'DELETE', `/api/v1/keys/${id}`);
  const refusals = pools.map(async (pool) => {
    for (;;) {
      const status = await ask(pool, secret);
      const tookMs = performance.now() - start;
      if (status === 401) return tookMs;
      if (status !== 200) throw new Error(`a proxy answers ${status} to a key that is being revoked`);
      if (tookMs > REVOKED_TIMEOUT_MS) throw new Error('a revoked key is still served');
      await sleep(LOOK_MS);
    }
  });
  const [, ...delays] = await Promise.all([revoking, ...refusals]);
  return delays;
}

async function ask(pool: Pool, secret: string): Promise<number> {
  const headers = { authorization: `Bearer ${secret}` };
  const { statusCode, body } = await pool.request({ method: 'GET', path: '/v1/models', headers });
  await body.dump();
  return statusCode;
}

/** How many keys a proxy asked for because it did not know them. */
async function lookUps(pool: Pool): Promise<number> {
  const { body } = await pool.request({ method: 'GET', path: '/metrics' });
  const [, misses] =
    /^weighbridge_key_lookups_total\{[^}]*met="miss"[^}]*\} (\d+)/m.exec(await body.text()) ?? [];
  return Number(misses ?? 0);
}
