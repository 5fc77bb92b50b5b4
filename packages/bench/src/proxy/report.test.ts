import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { proxyBars } from './bars.ts';
import type { ProxyFigures } from './proxy.ts';
import { headerOf } from './proxyOptions.ts';
import { describeProxy } from './report.ts';
import type { Cell, Round } from './rounds.ts';
import { writeDocs, writePeersDocs } from './writeDocs.ts';

function cell(contender: string, workload: string, ...rounds: readonly Partial<Round>[]): Cell {
  const still: Round = {
    requestsPerSecond: 1_000,
    cpuMicros: 10,
    cpuShare: 0.5,
    p50Ms: 1,
    p99Ms: 2,
    firstByteP50Ms: 1,
    firstByteP99Ms: 1,
    lateP99Ms: 0,
    othersShare: 0.004,
  };
  return { contender, workload, rounds: rounds.map((round) => ({ ...still, ...round })) };
}

const FIGURES: ProxyFigures = {
  cells: [
    cell('direct', '1 KB', { cpuMicros: Number.NaN }),
    cell('bare Node', '1 KB', { cpuMicros: 40 }, { cpuMicros: 80 }, { cpuMicros: 50 }),
    cell('Weighbridge', '1 KB', { cpuMicros: 50 }, { cpuMicros: 160 }, { cpuMicros: 50 }),
    cell('Weighbridge', '100 KB', { cpuMicros: 150 }, { cpuMicros: 150 }, { cpuMicros: 150 }),
    cell('Weighbridge', '1 MB', { cpuMicros: 1_074 }, { cpuMicros: 5_000 }, { cpuMicros: 1_074 }),
    cell('direct', 'one caller, 86 bytes', { p50Ms: 0.1, p99Ms: 0.2 }),
    cell('bare Node', 'one caller, 86 bytes', { p50Ms: 0.3, p99Ms: 1.2 }),
    cell('Weighbridge', 'one caller, 86 bytes', { p50Ms: 0.4, p99Ms: 1.4 }),
    cell('direct', 'one stream at a time', { firstByteP50Ms: 0.1 }),
    cell('bare Node', 'one stream at a time', { firstByteP50Ms: 0.4 }),
    cell('Weighbridge', 'one stream at a time', { firstByteP50Ms: 0.6 }),
    cell('direct', '1 KB at 1,000/s', { p50Ms: 0.5, p99Ms: 1 }),
    cell('Weighbridge', '1 KB at 1,000/s', { p50Ms: 0.7, p99Ms: 3 }),
    cell('Weighbridge, 10 keys and policies in turns', '1 KB, keys in turns', { cpuMicros: 100 }),
    cell('Weighbridge, 100 keys and policies in turns', '1 KB, keys in turns', { cpuMicros: 105 }),
  ],
  absent: [{ name: 'nginx', reason: 'not found' }],
  requests: 7,
  nanoUsd: '21',
  repeats: 3,
  roundMs: 10,
  pinned: true,
  isRealTime: true,
  memory: [{ contender: 'Weighbridge', idleMiB: 79.6, loadedMiB: 200 }],
  pairIsApart: false,
  keys: 10,
  load: 'load average 0.1',
  howRun: {},
  governed: ['Weighbridge'],
  runsOn: { Weighbridge: 'Node v24.9.0', 'bare Node': 'Node v24.9.0', direct: 'Node v20.1.0' },
};

it('compares round by round, and says whether each target is reached', () => {
  const bars = new Map(proxyBars(FIGURES).map((bar) => [bar.what, bar]));
  const bar = (what: string) => [bars.get(what)?.measured, bars.get(what)?.isReached];
  expect(bar('1 KB, 32 connections: of what bare Node does on a core')).toEqual(['0.80 (0.50–1.00)', true]);
  expect(bar('one caller: added at p50, of what bare Node adds')).toEqual(['1.50 (1.50–1.50)', false]);
  expect(bar("one caller: p99 beyond bare Node's, ms")).toEqual(['0.20 (0.20–0.20)', true]);
  expect(bar('1,000 requests/s: added at p50, ms')).toEqual(['0.20 (0.20–0.20)', true]);
  expect(bar('1,000 requests/s: added at p99, ms')).toEqual(['2.00 (2.00–2.00)', false]);
  expect(bar('memory of an idle proxy, MiB')).toEqual(['80 (80–80)', true]);
  expect(bar('a body 10 times as long (100 KB, 1 MB): CPU of a byte, of the shorter')).toEqual([
    '1.00 (1.00–4.83)',
    true,
  ]);
  expect(bar('10 times the keys and policies: CPU of a request')).toEqual(['1.05 (1.05–1.05)', true]);
  expect(bar('100 times the keys and policies: CPU of a request')).toEqual([undefined, undefined]);
  expect(bar('10 KB: of what bare Node does on a core')).toEqual([undefined, undefined]);
});

it('lists absent contenders and what it does not measure', () => {
  const text = describeProxy(FIGURES);
  expect(text).toContain('did not take part: nginx: not found');
  expect(text).toContain('not measured:\n');
  expect(text).toContain('on Node v24.9.0: Weighbridge; bare Node\non Node v20.1.0: direct\n');
  expect(text).toMatch(/one caller, 86 bytes +Weighbridge +300 \(300–300\) +1,200 /);
  expect(text).not.toContain('NaN');
});

const MACHINE = 'one machine';

it('replaces its sections of the docs and of the README, and writes the charts', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  const repository = new URL('../../../../', import.meta.url);
  const [docs, readme] = [join(folder, 'benchmarks.md'), join(folder, 'README.md')];
  await writeFile(docs, await readFile(new URL('docs/benchmarks.md', repository)));
  await writeFile(readme, await readFile(new URL('README.md', repository)));
  const options = { machine: MACHINE, bars: proxyBars(FIGURES), docs, readme };
  const pages = async () => [await readFile(docs, 'utf8'), await readFile(readme, 'utf8')];
  await writeDocs(FIGURES, options);
  const once = await pages();
  await writeDocs(FIGURES, options);
  expect(await pages()).toEqual(once);
  expect(once[0]).toContain(`${MACHINE}.`);
  expect(once[0]).toContain('## Results');
  expect(once[1]).toContain('It adds 300 µs (bare Node 200) to a request of one caller at p50, 1,200 µs');
  expect(once[1]).toContain('A request of 1 KB costs 50 µs of CPU (bare Node 50)');
  const svg = await readFile(join(folder, 'benchmarks', 'throughput.svg'), 'utf8');
  expect(svg).toContain('>Weighbridge</text>');
  expect(svg).not.toMatch(/NaN|undefined|direct/);

  await writePeersDocs({ ...FIGURES, howRun: { 'Peer 1': 'its settings' } }, { ...options, bars: [] });
  const [withPeers = ''] = await pages();
  expect(withPeers).toContain('- Peer 1: its settings');
  expect(withPeers.split(MACHINE)).toHaveLength(3);
  await rm(folder, { recursive: true });
});

it('parses headers in HTTP notation', () => {
  expect(headerOf('X-Api-Key: a: b')).toEqual(['x-api-key', 'a: b']);
  expect(() => headerOf('nothing')).toThrow('name: value');
});
