import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { ProxyFigures } from '../proxy/proxy.ts';
import type { Round } from '../proxy/rounds.ts';
import { findBinary } from './peer.ts';
import { PEERS, peerBars } from './peers.ts';

const SETTING = 'BENCH_TEST_PEER';
const folders: string[] = [];

afterEach(async () => {
  delete process.env[SETTING];
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function program(script: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  folders.push(folder);
  const path = join(folder, 'peer');
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

it.each([
  ['busbar 1.5.5 — a gateway', '1.5.5'],
  ['gomodel dev (commit: none, go1.26.8)', 'dev'],
  ['peer v2.0.1', '2.0.1'],
])('finds the version in: %s', async (output, version) => {
  const path = await program(`echo '${output}'`);
  process.env[SETTING] = path;
  await expect(findBinary(SETTING, 'peer')).resolves.toEqual({ path, version });
});

it.each([
  ['its version', '\nmod\tgomodel\tv0.1.22\t\n', '0.1.22'],
  ['its revision', '\nmod\tgomodel\t(devel)\t\nbuild\tvcs.revision=a26fbd1c0ffee\n', 'a26fbd1'],
  ['nothing', '', 'dev'],
])('finds in a Go program that says it is a development one: %s', async (_what, info, version) => {
  const path = await program(`echo 'gomodel dev (commit: none)'\nexit\n${info}`);
  process.env[SETTING] = path;
  await expect(findBinary(SETTING, 'peer')).resolves.toEqual({ path, version });
});

it('says what to set where a program is missing, and what is wrong where it does not run', async () => {
  await expect(findBinary(SETTING, 'no-such-peer')).rejects.toThrow(
    `no no-such-peer on the PATH: set ${SETTING} to it`,
  );
  process.env[SETTING] = '/nowhere/peer';
  await expect(findBinary(SETTING, 'peer')).rejects.toThrow(`${SETTING}=/nowhere/peer does not run`);
});

it('compares with the best of those with keys and budgets, round by round', () => {
  const cell = (contender: string, ...micros: readonly number[]) => ({
    contender,
    workload: '1 KB',
    rounds: micros.map((cpuMicros) => ({ cpuMicros, p99Ms: 3, requestsPerSecond: 1e6 / cpuMicros }) as Round),
  });
  const cells = [cell('Weighbridge', 50, 80), cell('A', 100, 100), cell('B', 40, 100), cell('Open', 10, 10)];
  const governed = ['Weighbridge', 'A', 'B'];
  const bars = new Map(
    peerBars({ cells, governed } as unknown as ProxyFigures).map((bar) => [bar.what, bar]),
  );
  const of = (what: string) => bars.get(`${what}, of the best other with keys and budgets`);
  // B: 50/40 and 80/100. A: 0.5 and 0.8.
  expect(of('32 connections, CPU')).toMatchObject({ measured: '1.02 of B', isReached: false });
  expect(of('32 connections, p99')).toMatchObject({ measured: '1.00 of A', isReached: true });
  expect(of('one caller, p50')).toMatchObject({ measured: undefined, isReached: undefined });
});

it('names every peer once, also those that it cannot start', () => {
  const names = PEERS.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(
    expect.arrayContaining(['GoModel, with a budget', 'GoModel, without budgets', 'Bifrost', 'agentgateway']),
  );
});
