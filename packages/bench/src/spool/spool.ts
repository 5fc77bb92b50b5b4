import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { cpuSeconds } from '../shared/cpu.ts';
import { type Figure, figure, formatFigure, formatTable } from '../shared/figures.ts';
import { createLoad, type Load } from '../shared/load.ts';
import { loadLine } from '../shared/machine.ts';
import { issueKeys, type RunningProxy, type Service, startProxy, startService } from '../shared/service.ts';
import { measureSpoolCalls, type SpoolCalls } from './spoolCalls.ts';

const CONNECTIONS = 32;
const RECORDED_TIMEOUT_MS = 60_000;
const POLL_MS = 200;
/** Share of the throughput. */
const MAX_COST = 0.05;
const USE_IN_MEMORY_SPOOL = new URL('./useInMemorySpool.js', import.meta.url).href;

export interface SpoolOptions {
  readonly rounds: number;
  readonly roundMs: number;
  /** Folder for CPU profiles of the proxies; without it there are none. */
  readonly cpuProf?: string;
  readonly onProgress: (text: string) => void;
}

export interface SpoolFigures {
  readonly rounds: number;
  readonly roundMs: number;
  readonly on: SideFigures;
  readonly off: SideFigures;
  /** Without the spool, but waiting for the end of each turn of the event loop. */
  readonly waits: SideFigures;
  /** Share of the throughput that the spool costs, from the rates of each round and from the CPU. */
  readonly costByRate: Figure;
  readonly costByCpu: Figure;
  /** The same compared with `waits`: the cost of the records, their file and the write. */
  readonly recordsByCpu: Figure;
  /** Beginning and settling attempts alone. */
  readonly calls: SpoolCalls;
  readonly events: number;
  readonly load: string;
}

interface SideFigures {
  /** Requests per second. */
  readonly rate: Figure;
  /** Microseconds of the proxy's CPU per request. */
  readonly cpuMicros: Figure;
}

interface Side {
  readonly proxy: RunningProxy;
  readonly load: Load;
  requests: number;
}

/**
 * Compares the throughput of a proxy with its spool and of one that holds events in memory: real proxies of one service,
 * loaded in turns. Waiting for the end of a turn of the event loop batches requests, which alone saves some of their cost,
 * so a third proxy waits without a spool. Every response is checked, and the ledger must have every request.
 */
export async function measureSpool(run: TestRun, options: SpoolOptions): Promise<SpoolFigures> {
  const { rounds, roundMs, cpuProf, onProgress } = options;
  const profiling = cpuProf === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${cpuProf}`];
  const service = await startService(run, 'shared/plainVendor');
  try {
    const [key = ''] = await issueKeys(service, ['load']);
    const start = (name: string, nodeArgs: readonly string[] = []) =>
      startSide(run, service, key, name, [...profiling, ...nodeArgs]);
    const on = await start('spool-on');
    const off = await start('spool-off', ['--import', USE_IN_MEMORY_SPOOL]);
    const waits = await start('spool-off-waits', ['--import', `${USE_IN_MEMORY_SPOOL}?waits`]);
    const sides = [on, off, waits];
    try {
      if (
        sides.filter(({ proxy }) => existsSync(proxy.spoolDir)).length !== 1 ||
        !existsSync(on.proxy.spoolDir)
      ) {
        throw new Error('exactly one proxy should have a spool');
      }
      onProgress('warming up');
      for (const side of [...sides, ...sides]) await measureRound(side, roundMs);
      const measured: { readonly on: Round; readonly off: Round; readonly waits: Round }[] = [];
      for (let round = 1; round <= rounds; round++) {
        onProgress(`round ${round} of ${rounds}`);
        // Rotate, so that each is equally often first, second and last.
        const from = round % sides.length;
        const rates = new Map<Side, Round>();
        for (const side of [...sides.slice(from), ...sides.slice(0, from)]) {
          rates.set(side, await measureRound(side, roundMs));
        }
        const of = (side: Side) => rates.get(side) ?? { rate: Number.NaN, cpuMicros: Number.NaN };
        measured.push({ on: of(on), off: of(off), waits: of(waits) });
      }
      const calls = await measureSpoolCalls(run.folder, rounds);
      const events = sides.reduce((sum, side) => sum + side.requests, 0);
      await checkRecorded(service.databaseUrl, events);
      const sideFigures = (name: 'on' | 'off' | 'waits'): SideFigures => ({
        rate: figure(measured.map((round) => round[name].rate)),
        cpuMicros: figure(measured.map((round) => round[name].cpuMicros)),
      });
      const byCpu = (name: 'off' | 'waits') =>
        figure(measured.map((round) => 1 - round[name].cpuMicros / round.on.cpuMicros));
      return {
        rounds,
        roundMs,
        on: sideFigures('on'),
        off: sideFigures('off'),
        waits: sideFigures('waits'),
        costByRate: figure(measured.map((round) => 1 - round.on.rate / round.off.rate)),
        costByCpu: byCpu('off'),
        recordsByCpu: byCpu('waits'),
        calls,
        events,
        load: loadLine(),
      };
    } finally {
      for (const { load, proxy } of sides) {
        await load.close();
        await proxy.process.stop();
      }
    }
  } finally {
    await service.close();
  }
}

export function describeSpool(figures: SpoolFigures): string {
  const { on, off, waits, costByRate, costByCpu, recordsByCpu, calls } = figures;
  const share = (calls.spool.median - calls.memory.median) / on.cpuMicros.median;
  const row = (name: string, { rate, cpuMicros }: SideFigures) => [
    name,
    formatFigure(rate, 0),
    formatFigure(cpuMicros, 1),
  ];
  const percent = ({ median, min, max }: Figure) =>
    formatFigure({ median: median * 100, min: min * 100, max: max * 100 }, 1);
  return [
    `${figures.rounds} rounds of ${figures.roundMs} ms each, in turns: median (min–max); ${figures.load}`,
    '',
    formatTable([
      ['spool', 'requests/s', "µs of the proxy's CPU per request"],
      row('on', on),
      row('off', off),
      row('off, but waits', waits),
    ]),
    '',
    `begin and settle: ${formatFigure(calls.spool, 1)} µs of CPU with the spool, ${formatFigure(calls.memory, 1)} in memory:`,
    `  ${(share * 100).toFixed(1)} % of the proxy's CPU per request; at most ${MAX_COST * 100} %`,
    `throughput lost, round by round: ${percent(costByCpu)} % by the proxies' CPU, ${percent(costByRate)} % by requests/s;`,
    `  compared with a proxy without a spool that waits for the end of each turn: ${percent(recordsByCpu)} % by the proxies' CPU`,
    `the ledger has the ${figures.events} requests, each once and at its price`,
  ].join('\n');
}

async function startSide(
  run: TestRun,
  service: Service,
  key: string,
  name: string,
  nodeArgs: readonly string[],
): Promise<Side> {
  const proxy = await startProxy(run, service, name, { nodeArgs });
  const isRight = (body: string) => body.includes('what drives onto it');
  return { proxy, load: createLoad(proxy.url, { key, connections: CONNECTIONS, isRight }), requests: 0 };
}

interface Round {
  readonly rate: number;
  readonly cpuMicros: number;
}

async function measureRound(side: Side, ms: number): Promise<Round> {
  const { pid } = side.proxy.process;
  const before = cpuSeconds(pid) ?? Number.NaN;
  const start = performance.now();
  const requests = await side.load.saturate(ms);
  const seconds = (performance.now() - start) / 1_000;
  const cpu = (cpuSeconds(pid) ?? Number.NaN) - before;
  side.requests += requests;
  return { rate: requests / seconds, cpuMicros: (cpu / requests) * 1_000_000 };
}

async function checkRecorded(databaseUrl: string, events: number): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const deadline = performance.now() + RECORDED_TIMEOUT_MS;
    for (;;) {
      const { rows } = await client.query<{ events: string; costs: string; nano: string }>(`
        SELECT count(*) AS events, count(DISTINCT cost_nano_usd) AS costs, min(cost_nano_usd) AS nano FROM usage_events`);
      const [held] = rows;
      if (Number(held?.events) === events && held?.costs === '1' && Number(held.nano) > 0) return;
      if (Number(held?.events) > events || performance.now() > deadline) {
        throw new Error(
          `the ledger should have ${events} requests of one cost, but has ${JSON.stringify(held)}`,
        );
      }
      await sleep(POLL_MS);
    }
  } finally {
    await client.end();
  }
}
