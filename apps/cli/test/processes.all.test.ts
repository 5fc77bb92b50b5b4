import { readFile } from 'node:fs/promises';
import { eventually, requireLinux } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';
import type { FaultyApp } from './faults/faultyApp.ts';
import { createLoad } from './faults/load.ts';
import { expectReconciled } from './faults/reconciliation.ts';
import { manage } from './mainJob.ts';

const SEED = 20_261_120;

let cluster: Cluster;
let caller: Caller;
let proxy: FaultyApp;

beforeAll(async () => {
  requireLinux('only Linux lists the children of a process');
  cluster = await startCluster({ env: { dataPlane: { PROCESSES: '2', NODE_OPTIONS: '' } } });
  caller = await cluster.caller('processes');
  const [only] = cluster.proxies;
  if (!only) throw new Error('there is no proxy');
  proxy = only;
});
afterAll(() => cluster?.close());

/** The names of the proxies that sent a heartbeat within the last seconds. */
async function names(): Promise<string[]> {
  const { body } = await manage(cluster, 'GET', '/api/v1/proxies?page_size=500');
  const listed = body.data as { name: string; last_seen_at: string }[];
  return listed
    .filter((one) => Date.now() - Date.parse(one.last_seen_at) < 3_000)
    .map(({ name }) => name)
    .sort();
}
async function children(): Promise<number[]> {
  const pids = await readFile(`/proc/${proxy.pid}/task/${proxy.pid}/children`, 'utf8');
  return pids.trim().split(' ').map(Number);
}

const BOTH = ['proxy-1-1', 'proxy-1-2'];

async function bothServe(): Promise<void> {
  await eventually(async () => expect(await names()).toEqual(BOTH), { intervalMs: 250 });
}

describe('a data plane of two processes on one port', () => {
  it('runs two proxies that share the requests; a killed one is replaced, and nothing is lost', async () => {
    await bothServe();
    const load = createLoad({ caller, seed: SEED, proxies: [proxy], atOnce: 8 });
    await load.send(60);
    expect(load.sent.map(({ end }) => end)).toEqual(Array(60).fill('whole'));

    const [child = 0] = await children();
    process.kill(child, 'SIGKILL');
    await load.send(40);
    await eventually(async () => {
      const now = await children();
      expect(now).toHaveLength(2);
      expect(now).not.toContain(child);
    });
    await bothServe();
    await load.send(40);
    expect(load.sent.slice(-40).map(({ end }) => end)).toEqual(Array(40).fill('whole'));

    expect(await proxy.stop()).toEqual({ code: 0, signal: null });
    await proxy.start();
    await expectReconciled(cluster, caller, load.sent, 'two processes');
  });
});
