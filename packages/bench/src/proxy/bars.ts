import { type Figure, figure, formatFigure } from '../figures.ts';
import { keysName, OURS } from './ours.ts';
import { AT_RATE, KEYS, LARGE, PLAIN, SIZES, STREAMED, STREAMED_AT_RATE } from './plan.ts';
import { DIRECT, type ProxyFigures } from './proxy.ts';
import type { Cell, Round } from './rounds.ts';
import type { Workload } from './workload.ts';

/** A figure that was aimed at, and what was measured of it. */
export interface Bar {
  readonly what: string;
  readonly bar: string;
  /** Undefined where it was not measured. */
  readonly measured: string | undefined;
  /** By the median. Undefined likewise. */
  readonly isReached: boolean | undefined;
}

const LEAST_OF_BARE = 0.65;
const LEAST_OF_BARE_STREAMED = 0.6;
const LEAST_OF_BARE_LARGE = 0.8;
const LEAST_TIMES_PORTKEY = 10;
const MOST_FIRST_BYTE_MS = 0.5;
const MOST_P50_MS = 0.3;
const MOST_P99_MS = 1;
const MOST_OF_PAIR = 1.18;
/** What of flat or linear is noise. */
const GROWTH_MARGIN = 1.1;

type Of = (round: Round) => number;
const byCpu: Of = ({ cpuMicros }) => 1 / cpuMicros;
const cpu: Of = ({ cpuMicros }) => cpuMicros;

/** The proxy's rows of the table of figures. Throughput on one core is by its CPU: that is what bounds it. */
export function proxyBars(figures: ProxyFigures): Bar[] {
  const cell = (contender: string, { name }: Pick<Workload, 'name'>): Cell | undefined =>
    figures.cells.find((one) => one.contender === contender && one.workload === name);
  const portkey = figures.cells.find(({ contender }) => contender.startsWith('Portkey'))?.contender;
  const ofBare = (workload: Workload) => ratio(cell(OURS, workload), cell('bare Node', workload), byCpu);
  const added = (workload: Workload, of: Of) => difference(cell(OURS, workload), cell(DIRECT, workload), of);
  const keysGrown = (times: number) =>
    ratio(cell(keysName(figures.keys * times), KEYS), cell(keysName(figures.keys), KEYS), cpu);
  return [
    least('1 KB, of what bare Node does on a core', ofBare(PLAIN), LEAST_OF_BARE),
    least(
      '1 KB, times Portkey',
      portkey === undefined ? undefined : ratio(cell(OURS, PLAIN), cell(portkey, PLAIN), byCpu),
      LEAST_TIMES_PORTKEY,
      1,
    ),
    least('streamed, of what bare Node does on a core', ofBare(STREAMED), LEAST_OF_BARE_STREAMED),
    most(
      'time to the first token at 100 streams/s, added at p50, ms',
      added(STREAMED_AT_RATE, ({ firstByteP50Ms }) => firstByteP50Ms),
      MOST_FIRST_BYTE_MS,
    ),
    most(
      'at 1,000 requests/s, added at p50, ms',
      added(AT_RATE, ({ p50Ms }) => p50Ms),
      MOST_P50_MS,
    ),
    most(
      'at 1,000 requests/s, added at p99, ms',
      added(AT_RATE, ({ p99Ms }) => p99Ms),
      MOST_P99_MS,
    ),
    least('1 MB prompt, of what bare Node does on a core', ofBare(LARGE), LEAST_OF_BARE_LARGE),
    most(
      'two processes: CPU of a request, of one',
      ratio(cell(`${OURS}, two processes`, PLAIN), cell(OURS, PLAIN), cpu),
      MOST_OF_PAIR,
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

/** Round by round: those of one turn had the same neighbours. */
function inPairs(
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

const ratio = (a: Cell | undefined, b: Cell | undefined, of: Of) => inPairs(a, b, (x, y) => of(x) / of(y));
const difference = (a: Cell | undefined, b: Cell | undefined, of: Of) =>
  inPairs(a, b, (x, y) => of(x) - of(y));

/** What the bytes cost beyond a request itself: 1 where ten times the bytes take ten times that. */
function linearity(
  small: Cell | undefined,
  large: Cell | undefined,
  largest: Cell | undefined,
): Figure | undefined {
  const base = small && figure(small.rounds.map(cpu)).median;
  if (base === undefined) return undefined;
  const times = LARGE.bytes / (SIZES[1]?.bytes ?? LARGE.bytes);
  // What is less than nothing was not measured well enough.
  const beyond = (round: Round) => (cpu(round) > base ? cpu(round) - base : Number.NaN);
  return inPairs(largest, large, (x, y) => beyond(x) / beyond(y) / times);
}
