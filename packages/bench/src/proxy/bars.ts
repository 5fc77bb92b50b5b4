import { type Figure, figure, formatFigure } from '../shared/figures.ts';
import { BARE, DIRECT } from './contender.ts';
import {
  AT_RATE,
  FEW_CALLERS,
  FIRST_EVENT,
  HUNDRED_KB,
  KEYS,
  LARGE,
  ONE_CALLER,
  PLAIN,
  STREAMED,
  TEN_KB,
} from './plan.ts';
import type { ProxyFigures } from './proxy.ts';
import type { Cell, Round } from './rounds.ts';
import { IN_PAIR, keysName, OURS } from './weighbridge.ts';
import type { Workload } from './workload.ts';

/** A figure with its target and its measured value. */
export interface Bar {
  readonly what: string;
  readonly bar: string;
  /** Undefined if it was not measured. */
  readonly measured: string | undefined;
  /** Whether the median reaches the target; undefined if it was not measured. */
  readonly isReached: boolean | undefined;
}

/** Of what bare Node adds to the time that the vendor takes. */
const MAX_ADDED_P50 = 1.2;
const MAX_P99_BEYOND_BARE_MS = 0.3;
const MIN_OF_BARE = 0.55;
const MAX_P99_OF_BARE = 1.5;
const MIN_OF_BARE_STREAMED = 0.65;
const MIN_OF_BARE_BY_SIZE = [
  [TEN_KB, 0.5],
  [HUNDRED_KB, 0.7],
  [LARGE, 0.85],
] as const;
const MAX_P50_MS = 0.3;
const MAX_P99_MS = 1;
const MAX_LATE_MS = 0.5;
const MAX_IDLE_MIB = 80;
const MAX_OF_PAIR = 1.18;
/** Growth up to this factor is noise. */
const GROWTH_MARGIN = 1.1;

type Metric = (round: Round) => number;
const perCpu: Metric = ({ cpuMicros }) => 1 / cpuMicros;
const cpu: Metric = ({ cpuMicros }) => cpuMicros;
const p50: Metric = ({ p50Ms }) => p50Ms;
const p99: Metric = ({ p99Ms }) => p99Ms;
const firstP50: Metric = ({ firstByteP50Ms }) => firstByteP50Ms;
const firstP99: Metric = ({ firstByteP99Ms }) => firstByteP99Ms;

/** The rows of the proxy in the table of figures. Throughput on one core is computed from CPU time, which bounds it. */
export function proxyBars(figures: ProxyFigures): Bar[] {
  const cell = (contender: string, { name }: Pick<Workload, 'name'>): Cell | undefined =>
    figures.cells.find((one) => one.contender === contender && one.workload === name);
  const ratio = (a: Cell | undefined, b: Cell | undefined, metric: Metric) =>
    byRound([a, b], ([x, y]) => metric(x) / metric(y));
  const ofBare = (workload: Workload, metric: Metric = perCpu) =>
    ratio(cell(OURS, workload), cell(BARE, workload), metric);
  const beyond = (contender: string, workload: Workload, metric: Metric) =>
    byRound([cell(OURS, workload), cell(contender, workload)], ([x, y]) => metric(x) - metric(y));
  const addedOfBare = (workload: Workload, metric: Metric) =>
    byRound(
      [cell(OURS, workload), cell(BARE, workload), cell(DIRECT, workload)],
      ([ours, bare, direct]) => (metric(ours) - metric(direct)) / (metric(bare) - metric(direct)),
    );
  const keysGrown = (times: number) =>
    ratio(cell(keysName(figures.keys * times), KEYS), cell(keysName(figures.keys), KEYS), cpu);
  const late = byRound([cell(OURS, AT_RATE)], ([round]) => round.lateP99Ms);
  const idle = figures.memory.find(({ contender }) => contender === OURS)?.idleMiB;
  return [
    most('one caller: added at p50, of what bare Node adds', addedOfBare(ONE_CALLER, p50), MAX_ADDED_P50),
    most("one caller: p99 beyond bare Node's, ms", beyond(BARE, ONE_CALLER, p99), MAX_P99_BEYOND_BARE_MS),
    most(
      'first event of a stream: added at p50, of what bare Node adds',
      addedOfBare(FIRST_EVENT, firstP50),
      MAX_ADDED_P50,
    ),
    most(
      "first event of a stream: p99 beyond bare Node's, ms",
      beyond(BARE, FIRST_EVENT, firstP99),
      MAX_P99_BEYOND_BARE_MS,
    ),
    least('1 KB, 32 connections: of what bare Node does on a core', ofBare(PLAIN), MIN_OF_BARE),
    least('1 KB, 8 connections: of what bare Node does on a core', ofBare(FEW_CALLERS), MIN_OF_BARE),
    most("1 KB, 8 connections: p99, of bare Node's", ofBare(FEW_CALLERS, p99), MAX_P99_OF_BARE),
    least('streamed: of what bare Node does on a core', ofBare(STREAMED), MIN_OF_BARE_STREAMED),
    ...MIN_OF_BARE_BY_SIZE.map(([workload, bound]) =>
      least(`${workload.name}: of what bare Node does on a core`, ofBare(workload), bound),
    ),
    most('1,000 requests/s: added at p50, ms', beyond(DIRECT, AT_RATE, p50), MAX_P50_MS),
    most('1,000 requests/s: added at p99, ms', beyond(DIRECT, AT_RATE, p99), MAX_P99_MS),
    most('1,000 requests/s: sent late at p99, ms', late, MAX_LATE_MS),
    most('memory of an idle proxy, MiB', idle === undefined ? undefined : figure([idle]), MAX_IDLE_MIB, 0),
    most(
      'two processes: CPU of a request, of one',
      ratio(cell(IN_PAIR, PLAIN), cell(OURS, PLAIN), cpu),
      MAX_OF_PAIR,
    ),
    most(
      'a body 10 times as long (100 KB, 1 MB): CPU of a byte, of the shorter',
      linearity(cell(OURS, PLAIN), cell(OURS, HUNDRED_KB), cell(OURS, LARGE)),
      GROWTH_MARGIN,
    ),
    most('10 times the keys and policies: CPU of a request', keysGrown(10), GROWTH_MARGIN),
    most('100 times the keys and policies: CPU of a request', keysGrown(100), GROWTH_MARGIN),
  ];
}

/** Those that a run of some lanes has figures for; all of them of a whole run. */
export function shownBars(bars: readonly Bar[], { isPart }: { readonly isPart: boolean }): readonly Bar[] {
  return isPart ? bars.filter(({ measured }) => measured !== undefined) : bars;
}

function least(what: string, measured: Figure | undefined, bound: number, digits = 2): Bar {
  return bar(what, `at least ${bound}`, measured, digits, (median) => median >= bound);
}

function most(what: string, measured: Figure | undefined, bound: number, digits = 2): Bar {
  return bar(what, `at most ${bound}`, measured, digits, (median) => median <= bound);
}

function bar(
  what: string,
  text: string,
  measured: Figure | undefined,
  digits: number,
  holds: (median: number) => boolean,
): Bar {
  return {
    what,
    bar: text,
    measured: measured && formatFigure(measured, digits),
    isReached: measured && holds(measured.median),
  };
}

type RoundOf<Cells extends readonly unknown[]> = { [At in keyof Cells]: Round };

/** Compares round by round, since adjacent rounds ran under the same conditions. Undefined if a cell was not measured. */
export function byRound<const Cells extends readonly (Cell | undefined)[]>(
  cells: Cells,
  of: (rounds: RoundOf<Cells>) => number,
): Figure | undefined {
  const lengths = cells.map((one) => one?.rounds.length ?? 0);
  const values = Array.from({ length: Math.min(...lengths) }, (_, at) =>
    of(cells.map((one) => one?.rounds[at]) as RoundOf<Cells>),
  ).filter(Number.isFinite);
  return values.length === 0 ? undefined : figure(values);
}

/** Cost per byte beyond that of a small request: 1 if ten times the bytes cost ten times as much. */
function linearity(
  small: Cell | undefined,
  large: Cell | undefined,
  largest: Cell | undefined,
): Figure | undefined {
  const base = small && figure(small.rounds.map(cpu)).median;
  if (base === undefined) return undefined;
  const times = LARGE.bytes / HUNDRED_KB.bytes;
  // A negative difference is noise.
  const beyond = (round: Round) => (cpu(round) > base ? cpu(round) - base : Number.NaN);
  return byRound([largest, large], ([x, y]) => beyond(x) / beyond(y) / times);
}
