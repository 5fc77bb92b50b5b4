import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestRun } from '@weighbridge/testing';
import pg from 'pg';
import { cpuSeconds } from './cpu.ts';
import { type Figure, figure, formatFigure, formatTable } from './figures.ts';
import { createLoad, type Load } from './load.ts';
import { loadLine } from './machine.ts';
import { issueKeys, type RunningProxy, type Service, startProxy, startService } from './service.ts';
import { measureSpoolCalls, type SpoolCalls } from './spoolCalls.ts';

const CONNECTIONS = 32;
const RECORDED_TIMEOUT_MS = 60_000;
const LOOK_MS = 200;
/** Of the throughput, at most. */
const MOST_COST = 0.05;
const WITHOUT_SPOOL = new URL('./withoutSpool.js', import.meta.url).href;

export interface SpoolOptions {
  readonly rounds: number;
  readonly roundMs: number;
  /** A folder for profiles of the proxies' CPU; none are taken without. */
  readonly cpuProf?: string;
  readonly onProgress: (text: string) => void;
}

export interface SpoolFigures {
  readonly rounds: number;
  readonly roundMs: number;
  readonly on: SideFigures;
  readonly off: SideFigures;
  /** Without a spool, and yet waiting for the end of each turn of the event loop. */
  readonly waits: SideFigures;
  /** Of throughput: what is missing with the spool, by the rates of each round, and by the CPU. */
  readonly costByRate: Figure;
  readonly costByCpu: Figure;
  /** Beside the one that waits: what is missing by records, their file, and the write. */
  readonly recordsByCpu: Figure;
  /** Beginning and settling by itself. */
  readonly calls: SpoolCalls;
  readonly events: number;
  readonly load: string;
}

interface SideFigures {
  /** Requests a second. */
  readonly rate: Figure;
  /** Microseconds of the proxy's CPU for each. */
  readonly cpuMicros: Figure;
}

interface Side {
  readonly proxy: RunningProxy;
  readonly load: Load;
  requests: number;
}

/**
 * The throughput of a proxy with its spool by that of one whose events stay in memory, all else being equal: real
 * proxies of one service, loaded in turns. Waiting for the end of a turn of the event loop brings requests together, which
 * by itself saves some of what they cost: a third proxy has no spool and waits. Every answer is looked at, and the ledger
 * has to hold every request of all.
 */
export async function measureSpool(run: TestRun, options: SpoolOptions): Promise<SpoolFigures> {
  const { rounds, roundMs, cpuProf, onProgress } = options;
  const profiling = cpuProf === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${cpuProf}`];
  const service = await startService(run, 'plainVendor');
  try {
    const [key = ''] = await issueKeys(service, ['load']);
    const start = (name: string, nodeArgs: readonly string[] = []) =>
      startSide(run, service, key, name, [...profiling, ...nodeArgs]);
    const on = await start('spool-on');
    const off = await start('spool-off', ['--import', WITHOUT_SPOOL]);
    const waits = await start('spool-off-waits', ['--import', `${WITHOUT_SPOOL}?waits`]);
    const sides = [on, off, waits];
    try {
      if (
        sides.filter(({ proxy }) => existsSync(proxy.spoolDir)).length !== 1 ||
        !existsSync(on.proxy.spoolDir)
      ) {
        throw new Error('one proxy was to have a spool and the others none');
      }
      onProgress('warming up');
      for (const side of [...sides, ...sides]) await measureRound(side, roundMs);
      const measured: { readonly on: Round; readonly off: Round; readonly waits: Round }[] = [];
      for (let round = 1; round <= rounds; round++) {
        onProgress(`round ${round} of ${rounds}`);
        // Each is first, second and last as often as the others.
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
      const side = (name: 'on' | 'off' | 'waits'): SideFigures => ({
        rate: figure(measured.map((round) => round[name].rate)),
        cpuMicros: figure(measured.map((round) => round[name].cpuMicros)),
      });
      const byCpu = (name: 'off' | 'waits') =>
        figure(measured.map((round) => 1 - round[name].cpuMicros / round.on.cpuMicros));
      return {
        rounds,
        roundMs,
        on: side('on'),
        off: side('off'),
        waits: side('waits'),
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
      ['spool', 'requests/s', "µs of the proxy's CPU a request"],
      row('on', on),
      row('off', off),
      row('off, but waits', waits),
    ]),
    '',
    `begin and settle: ${formatFigure(calls.spool, 1)} µs of CPU with the spool, ${formatFigure(calls.memory, 1)} in memory:`,
    `  ${(share * 100).toFixed(1)} % of what a request takes of the proxy's CPU with it; at most ${MOST_COST * 100} %`,
    `throughput lost, round by round: ${percent(costByCpu)} % by the proxies' CPU, ${percent(costByRate)} % by requests/s;`,
    `  beside one that waits for the end of each turn without a spool: ${percent(recordsByCpu)} % by the proxies' CPU`,
    `the ledger held the ${figures.events} requests, each once and at its price`,
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
        throw new Error(`of ${events} requests the ledger holds ${JSON.stringify(held)}`);
      }
      await sleep(LOOK_MS);
    }
  } finally {
    await client.end();
  }
}
