import { execFile } from 'node:child_process';
import { cp, lstat, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';
import type { FaultyApp } from './faults/faultyApp.ts';
import { CONTROL_PLANE_TOKEN } from './processes.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

let cluster: Cluster;
let caller: Caller;
let proxy: FaultyApp;
let spoolDir: string;
let settings: Record<string, string>;

beforeAll(async () => {
  cluster = await startCluster();
  caller = await cluster.caller('app');
  const [only] = cluster.proxies;
  if (!only) throw new Error('there is no proxy');
  proxy = only;
  spoolDir = cluster.spoolDir(proxy);
  settings = {
    NATS_URL: cluster.nats.urls['data-plane'],
    CONTROL_PLANE_ADDRESS: cluster.controlPlaneAddress,
    CONTROL_PLANE_TOKEN,
  };
});
afterAll(() => cluster?.close());

function replay(
  dir: string,
  env: Record<string, string> = settings,
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'spool', 'replay', dir], { env }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, output: out + err }),
    );
  });
}

const rows = () =>
  cluster.db
    .selectFrom('usage_events')
    .select(['outcome', 'estimated', 'cost_nano_usd'])
    .orderBy('event_id')
    .execute();

it('the spool of a killed proxy is replayed once, with attempts in flight at their reservation', async () => {
  const { db, vendor } = cluster;
  const complete = (headers: Record<string, string>) =>
    fetch(`${cluster.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({
        model: 'mock/echo',
        messages: [{ role: 'user', content: 'x' }],
        max_tokens: 50,
      }),
    });
  for (let at = 0; at < 5; at++) expect((await complete({})).status).toBe(200);
  const cut = complete({ 'x-mock-delay-ms': '60000' }).catch(() => 'cut');
  await eventually(() => expect(vendor.requests).toHaveLength(6));

  expect(await replay(spoolDir)).toMatchObject({
    code: 1,
    output: expect.stringContaining('Another process'),
  });
  await proxy.stop('SIGKILL');
  expect(await cut).toBe('cut');
  const copy = join(dirname(dirname(spoolDir)), 'copy', 'spool');
  await cp(spoolDir, copy, { recursive: true, filter: async (path) => !(await lstat(path)).isSocket() });

  expect(await replay(dirname(spoolDir))).toMatchObject({
    code: 1,
    output: expect.stringContaining('is not a spool'),
  });
  const alone = await replay(spoolDir, { ...settings, CONTROL_PLANE_ADDRESS: '127.0.0.1:1' });
  expect(alone).toMatchObject({ code: 1, output: expect.stringContaining('could not be closed') });
  const ledger = await rows();
  expect(ledger).toHaveLength(6);
  expect(ledger.at(-1)).toMatchObject({ outcome: 'interrupted', estimated: true });
  expect(Number(ledger.at(-1)?.cost_nano_usd)).toBeGreaterThan(0);

  const whole = await replay(spoolDir);
  expect(whole).toMatchObject({
    code: 0,
    output: expect.stringContaining('6 events, all in the ledger. Closed'),
  });
  expect(await replay(spoolDir)).toEqual({
    code: 0,
    output: 'The spool is empty: there is nothing to replay.\n',
  });
  expect(await rows()).toEqual(ledger);
  const states = await db.selectFrom('producers').select('state').execute();
  expect(states).toEqual([{ state: 'closed' }]);
  expect(await readdir(spoolDir)).toEqual(['producer', 'producer.key']);

  // A copy changes nothing, and damaged records are reported.
  const [segment = ''] = (await readdir(copy, { recursive: true })).filter((name) => name.endsWith('.spool'));
  const bytes = await readFile(join(copy, segment));
  bytes[bytes.length >> 1] = ~(bytes[bytes.length >> 1] ?? 0);
  await writeFile(join(copy, segment), bytes);
  const spoilt = await replay(copy);
  expect(spoilt).toMatchObject({ code: 0, output: expect.stringContaining('1 damaged place') });
  expect(await rows()).toEqual(ledger);
});
