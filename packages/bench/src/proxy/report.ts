import { recordRows } from '../observe/recordsTable.ts';
import { figure, formatFigure, formatTable } from '../shared/figures.ts';
import { shippedNode } from '../shared/shippedNode.ts';
import { type BarChart, barChartSvg, type ChartBar } from './barChart.ts';
import { type Bar, byRound, proxyBars } from './bars.ts';
import { DIRECT } from './contender.ts';
import { AT_RATE, FIRST_EVENT, ONE_CALLER, PACED, PLAIN, STREAMED } from './plan.ts';
import type { ProxyFigures } from './proxy.ts';
import { type Cell, figureOf, type Round } from './rounds.ts';
import { OURS } from './weighbridge.ts';

/** The limits of the figures, as sentences. */
export const NOT_MEASURED = [
  'The vendor responds at once with a prepared response: no model, no TLS, no network between machines.',
  'Requests/s are those of a proxy on its own core. The load generator, the vendor, and for Weighbridge also NATS, metering and Postgres share the other cores: their cost shows in requests/s, not in the CPU per request.',
  'More than two processes; and two processes by requests/s, on fewer than four cores.',
  'Translated, compressed or stored responses; images, tools, routes other than chat completions.',
  'Rate limits, budgets and failover at work: every request finds headroom, every attempt succeeds.',
  "Latency at rates near a contender's limit.",
] as const;

/** Those in which no request waits for another. */
const LATENCY_LANES: readonly string[] = [ONE_CALLER, FIRST_EVENT, AT_RATE, PACED].map(({ name }) => name);

const HEAD = [
  'workload',
  'contender',
  'requests/s',
  'µs of CPU each',
  'of a core',
  'p50 ms',
  'p99 ms',
  'first byte p50 ms',
  'first byte p99 ms',
  'sent late p99 ms',
];

function row(cell: Cell): string[] {
  const text = (metric: (round: Round) => number, digits: number) => {
    const value = figureOf(cell, metric);
    return Number.isFinite(value.median) ? formatFigure(value, digits) : '';
  };
  return [
    cell.workload,
    cell.contender,
    text(({ requestsPerSecond }) => requestsPerSecond, 0),
    text(({ cpuMicros }) => cpuMicros, 1),
    text(({ cpuShare }) => cpuShare, 2),
    text(({ p50Ms }) => p50Ms, 3),
    text(({ p99Ms }) => p99Ms, 3),
    text(({ firstByteP50Ms }) => firstByteP50Ms, 3),
    text(({ firstByteP99Ms }) => firstByteP99Ms, 3),
    text(({ lateP99Ms }) => lateP99Ms, 2),
  ];
}

function cellRows({ cells }: ProxyFigures): string[][] {
  return [HEAD, ...cells.map(row)];
}

/** What each contender adds to the time that the vendor takes, in µs. */
function addedRows({ cells }: ProxyFigures): string[][] {
  const rows = cells.flatMap((cell) => {
    const direct = cells.find((one) => one.contender === DIRECT && one.workload === cell.workload);
    if (cell.contender === DIRECT || !direct || !LATENCY_LANES.includes(cell.workload)) return [];
    const added = (metric: (round: Round) => number) => {
      const micros = byRound([cell, direct], ([x, y]) => (metric(x) - metric(y)) * 1_000);
      return micros ? formatFigure(micros, 0) : '';
    };
    return [
      [
        cell.workload,
        cell.contender,
        added(({ p50Ms }) => p50Ms),
        added(({ p99Ms }) => p99Ms),
        added(({ firstByteP50Ms }) => firstByteP50Ms),
        added(({ firstByteP99Ms }) => firstByteP99Ms),
      ],
    ];
  });
  const head = ['workload', 'contender', 'added p50 µs', 'p99 µs', 'first byte p50 µs', 'first byte p99 µs'];
  return rows.length === 0 ? [] : [head, ...rows];
}

function memoryRows({ memory }: ProxyFigures): string[][] {
  return [
    ['contender', 'idle MiB', 'loaded MiB'],
    ...memory.map(({ contender, idleMiB, loadedMiB }) => [
      contender,
      idleMiB.toFixed(0),
      loadedMiB.toFixed(0),
    ]),
  ];
}

export function barRows(bars: readonly Bar[]): string[][] {
  return [
    ['figure', 'measured', 'bar', ''],
    ...bars.map(({ what, measured, bar, isReached }) => [
      what,
      measured ?? 'not measured',
      bar,
      isReached === undefined ? '' : isReached ? 'reached' : 'missed',
    ]),
  ];
}

/** Facts of the run, as sentences. */
export function proxyNotes(figures: ProxyFigures): string[] {
  const { repeats, roundMs, pinned, isRealTime, requests, nanoUsd, absent, load } = figures;
  const directRate = plainRate(figures, DIRECT);
  const fastest = Math.max(
    ...figures.cells
      .filter(({ workload, contender }) => workload === PLAIN.name && contender !== DIRECT)
      .map((cell) => figureOf(cell, ({ requestsPerSecond }) => requestsPerSecond).median),
  );
  return [
    `${repeats} rounds of ${roundMs} ms in turns: median (min–max); ${load}`,
    pinned
      ? 'the proxies ran on the first core, everything else on the others'
      : 'nothing was pinned to a core, so requests/s and latencies say little',
    isRealTime
      ? 'load generator and vendor ran at a real-time priority'
      : 'real-time priorities were not permitted, so the load generator may have been late',
    ...othersNotes(figures),
    ...(directRate !== undefined && directRate < fastest
      ? ['the vendor limited requests/s, so only the CPU per request says something']
      : []),
    `every response was right, and the ledger has the ${requests.toLocaleString('en-US')} requests of ${OURS}, each once: ${nanoUsd} nano-USD, requests × price`,
    ...runsOnNotes(figures),
    ...Object.entries(figures.howRun).map(([name, text]) => `${name}: ${text}`),
    ...absent.map(({ name, reason }) => `did not take part: ${name}: ${reason}`),
  ];
}

/** How far contenders that were not measured disturbed the one that was. */
function othersNotes({ cells }: ProxyFigures): string[] {
  const shares = cells.flatMap(({ rounds }) => rounds.map(({ othersShare }) => othersShare));
  if (shares.length === 0) return [];
  const percent = (share: number) => (share * 100).toFixed(1);
  const { median, max } = figure(shares);
  return [
    `one contender ran at a time, but for ${OURS}, which keeps its leases: those that were not measured took ${percent(median)} % of a core (at most ${percent(max)})`,
  ];
}

/** One sentence for all contenders that ran on the same. */
function runsOnNotes({ runsOn }: ProxyFigures): string[] {
  const { note } = shippedNode();
  const notes = [...new Set(Object.values(runsOn))].map((on) => {
    const names = Object.keys(runsOn).filter((name) => runsOn[name] === on);
    return `on ${on}: ${names.join('; ')}`;
  });
  return note === undefined ? notes : [...notes, note];
}

function plainRate(figures: ProxyFigures, contender: string): number | undefined {
  const cell = figures.cells.find((one) => one.contender === contender && one.workload === PLAIN.name);
  return cell && figureOf(cell, ({ requestsPerSecond }) => requestsPerSecond).median;
}

/** All tables of figures but that of the bars. */
export function tables(figures: ProxyFigures): string[][][] {
  const all = [cellRows(figures), addedRows(figures), recordRows(figures.cells), memoryRows(figures)];
  return all.filter((rows) => rows.length > 1);
}

export function describeProxy(figures: ProxyFigures, bars: readonly Bar[] = proxyBars(figures)): string {
  return [
    ...proxyNotes(figures),
    '',
    ...tables(figures).map((rows) => `${formatTable(rows)}\n`),
    formatTable(barRows(bars)),
    '',
    'not measured:',
    ...NOT_MEASURED.map((what) => `  ${what}`),
  ].join('\n');
}

/** The charts of a run as SVG, by file name. */
export function proxyCharts(figures: ProxyFigures): ReadonlyMap<string, string> {
  const chart = (
    workload: string,
    metric: (round: Round) => number,
    more: Omit<BarChart, 'bars'>,
    isShown: (contender: string) => boolean = () => true,
  ): string => {
    const bars: ChartBar[] = figures.cells
      .filter((cell) => cell.workload === workload && isShown(cell.contender))
      .map((cell) => ({
        label: cell.contender,
        value: figureOf(cell, metric),
        isOurs: cell.contender.startsWith(OURS),
      }))
      .filter(({ value }) => Number.isFinite(value.median));
    return barChartSvg({ ...more, bars });
  };
  const perCoreSecond = ({ cpuMicros }: Round) => 1_000_000 / cpuMicros;
  const isProxy = (contender: string) => contender !== DIRECT;
  return new Map([
    [
      'throughput.svg',
      chart(
        PLAIN.name,
        perCoreSecond,
        { title: '1 KB prompt', unit: 'requests per second of a core', digits: 0 },
        isProxy,
      ),
    ],
    [
      'streams.svg',
      chart(
        STREAMED.name,
        perCoreSecond,
        { title: 'Streamed, 40 chunks', unit: 'streams per second of a core', digits: 0 },
        isProxy,
      ),
    ],
    [
      'latency-p50.svg',
      chart(AT_RATE.name, ({ p50Ms }) => p50Ms, { title: '1,000 requests/s, p50', unit: 'ms', digits: 2 }),
    ],
    [
      'latency-p99.svg',
      chart(AT_RATE.name, ({ p99Ms }) => p99Ms, { title: '1,000 requests/s, p99', unit: 'ms', digits: 2 }),
    ],
  ]);
}
