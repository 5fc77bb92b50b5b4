import { type Figure, figure, formatFigure } from '../shared/figures.ts';
import { AT_RATE, KEYS, LARGE, PLAIN, SIZES, STREAMED, STREAMED_AT_RATE } from './plan.ts';
import { DIRECT, type ProxyFigures } from './proxy.ts';
import type { Cell, Round } from './rounds.ts';
import { keysName, OURS } from './weighbridge.ts';
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

const MIN_OF_BARE = 0.65;
const MIN_OF_BARE_STREAMED = 0.6;
const MIN_OF_BARE_LARGE = 0.8;
const MIN_TIMES_PORTKEY = 10;
const MAX_FIRST_BYTE_MS = 0.5;
const MAX_P50_MS = 0.3;
const MAX_P99_MS = 1;
const MAX_OF_PAIR = 1.18;
/** Growth up to this factor is noise. */
const GROWTH_MARGIN = 1.1;

type Metric = (round: Round) => number;
const perCpu: Metric = ({ cpuMicros }) => 1 / cpuMicros;
const cpu: Metric = ({ cpuMicros }) => cpuMicros;

/** The rows of the proxy in the table of figures. Throughput on one core is computed from CPU time, which bounds it. */
export function proxyBars(figures: ProxyFigures): Bar[] {
  const cell = (contender: string, { name }: Pick<Workload, 'name'>): Cell | undefined =>
    figures.cells.find((one) => one.contender === contender && one.workload === name);
  const portkey = figures.cells.find(({ contender }) => contender.startsWith('Portkey'))?.contender;
  const ofBare = (workload: Workload) => ratio(cell(OURS, workload), cell('bare Node', workload), perCpu);
  const added = (workload: Workload, metric: Metric) =>
    difference(cell(OURS, workload), cell(DIRECT, workload), metric);
  const keysGrown = (times: number) =>
    ratio(cell(keysName(figures.keys * times), KEYS), cell(keysName(figures.keys), KEYS), cpu);
  return [
    least('1 KB, of what bare Node does on a core', ofBare(PLAIN), MIN_OF_BARE),
    least(
      '1 KB, times Portkey',
      portkey === undefined ? undefined : ratio(cell(OURS, PLAIN), cell(portkey, PLAIN), perCpu),
      MIN_TIMES_PORTKEY,
      1,
    ),
    least('streamed, of what bare Node does on a core', ofBare(STREAMED), MIN_OF_BARE_STREAMED),
    most(
      'time to the first token at 100 streams/s, added at p50, ms',
      added(STREAMED_AT_RATE, ({ firstByteP50Ms }) => firstByteP50Ms),
      MAX_FIRST_BYTE_MS,
    ),
    most(
      'at 1,000 requests/s, added at p50, ms',
      added(AT_RATE, ({ p50Ms }) => p50Ms),
      MAX_P50_MS,
    ),
    most(
      'at 1,000 requests/s, added at p99, ms',
      added(AT_RATE, ({ p99Ms }) => p99Ms),
      MAX_P99_MS,
    ),
    least('1 MB prompt, of what bare Node does on a core', ofBare(LARGE), MIN_OF_BARE_LARGE),
    most(
      'two processes: CPU of a request, of one',
      ratio(cell(`${OURS}, two processes`, PLAIN), cell(OURS, PLAIN), cpu),
      MAX_OF_PAIR,
    ),
    most(
      'a body 10 times as long (100 KB, 1 MB): CPU of a byte, of the shorter',
      linearity(cell(OURS, PLAIN), cell(OURS, SIZES[1] ?? LARGE), cell(OURS, LARGE)),
      GROWTH_MARGIN,
    ),
    most('10 times the keys and policies: CPU of a request', keysGrown(10), GROWTH_MARGIN),
    most('100 times the keys and policies: CPU of a request', keysGrown(100), GROWTH_MARGIN),
  ];
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

/** Compares round by round, since adjacent rounds ran under the same conditions. */
function compareRounds(
  a: Cell | undefined,
  b: Cell | undefined,
  of: (a: Round, b: Round) => number,
): Figure | undefined {
  if (!a || !b) return undefined;
  const values = a.rounds.flatMap((round, at) => {
    const other = b.rounds[at];
    const value = other ? of(round, other) : Number.NaN;
    return Number.isFinite(value) ? [value] : [];
  });
  return values.length === 0 ? undefined : figure(values);
}

const ratio = (a: Cell | undefined, b: Cell | undefined, metric: Metric) =>
  compareRounds(a, b, (x, y) => metric(x) / metric(y));
const difference = (a: Cell | undefined, b: Cell | undefined, metric: Metric) =>
  compareRounds(a, b, (x, y) => metric(x) - metric(y));

/** Cost per byte beyond that of a small request: 1 if ten times the bytes cost ten times as much. */
function linearity(
  small: Cell | undefined,
  large: Cell | undefined,
  largest: Cell | undefined,
): Figure | undefined {
  const base = small && figure(small.rounds.map(cpu)).median;
  if (base === undefined) return undefined;
  const times = LARGE.bytes / (SIZES[1]?.bytes ?? LARGE.bytes);
  // A negative difference is noise.
  const beyond = (round: Round) => (cpu(round) > base ? cpu(round) - base : Number.NaN);
  return compareRounds(largest, large, (x, y) => beyond(x) / beyond(y) / times);
}
