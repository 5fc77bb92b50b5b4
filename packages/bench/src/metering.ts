import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import { checkLedger } from './checkLedger.ts';
import { cpuSeconds, findPostmaster } from './cpu.ts';
import { type Figure, figure, formatFigure, formatTable } from './figures.ts';
import { startMeterRun, type Taken } from './meterRun.ts';
import { writeRaw } from './rawFloor.ts';
import { type MeasuredEvent, measuredBatches, measuredEvents } from './usage.ts';

/** As large as a proxy's batches are under load. */
const FULL_BATCH_EVENTS = 256;
/** As large as they are where a proxy sends what it has every 20 ms. */
const SMALL_BATCH_EVENTS = 4;
const RAW_TRANSACTION_EVENTS = 1_000;
/** One event for so many that are measured. */
const WARM_UP_SHARE = 3;
/** The floor's share that metering must reach. */
const LEAST_RATIO = 0.5;

export interface MeteringOptions {
  /** Measured each time, after a third as many for warming up. */
  readonly events: number;
  readonly producers: number;
  readonly repeats: number;
  /** A folder for profiles of the workers' CPU; none are taken without. */
  readonly cpuProf?: string;
  readonly onProgress: (text: string) => void;
}

export interface MeteringFigures {
  readonly events: number;
  readonly producers: number;
  readonly repeats: number;
  /** Events a second. */
  readonly rawSql: Figure;
  readonly oneProducer: Figure;
  /** In the small batches of many. */
  readonly oneInSmall: Figure;
  readonly manyProducers: Figure;
  /** One producer's rate by that of raw SQL, each pair measured next to each other. */
  readonly ratio: Figure;
  /** What an event costs from many producers in small batches, by what it costs from one in full ones. */
  readonly manyByOneWall: Figure;
  readonly manyByOneCpu: Figure | undefined;
  /** The same by what it costs from one producer in small batches: what the number of producers alone makes of it. */
  readonly manyByOneInSmallWall: Figure;
  readonly manyByOneInSmallCpu: Figure | undefined;
  /** Microseconds of CPU an event. */
  readonly cpu: {
    /** Of Postgres alone. */
    readonly rawSql: Figure | undefined;
    readonly oneProducer: CpuFigures | undefined;
    readonly oneInSmall: CpuFigures | undefined;
    readonly manyProducers: CpuFigures | undefined;
  };
}

interface CpuFigures {
  readonly metering: Figure;
  readonly postgres: Figure;
  readonly nats: Figure;
}

/**
 * Events a second through NATS and metering into Postgres, by what the same Postgres takes of the same rows straight from
 * memory; and what an event costs when it comes in the small batches of many producers. Each measurement has a database
 * (and NATS, and worker) of its own, is warmed up, and is checked: every event once, every bucket the sum of its events.
 */
export async function measureMetering(run: TestRun, options: MeteringOptions): Promise<MeteringFigures> {
  const { events: count, producers, repeats, cpuProf, onProgress } = options;
  const events = measuredEvents(count + Math.ceil(count / WARM_UP_SHARE), new Date());
  const rounds: Round[] = [];
  for (let round = 1; round <= repeats; round++) {
    onProgress(`round ${round} of ${repeats}: raw SQL`);
    const raw = await measureRaw(run, events);
    onProgress(`round ${round} of ${repeats}: one producer`);
    const one = await measureStream(run, events, {
      producers: 1,
      eventsPerBatch: FULL_BATCH_EVENTS,
      cpuProf,
    });
    onProgress(`round ${round} of ${repeats}: one producer in small batches`);
    const small = await measureStream(run, events, {
      producers: 1,
      eventsPerBatch: SMALL_BATCH_EVENTS,
      cpuProf,
    });
    onProgress(`round ${round} of ${repeats}: ${producers} producers`);
    const many = await measureStream(run, events, { producers, eventsPerBatch: SMALL_BATCH_EVENTS, cpuProf });
    rounds.push({ raw, one, small, many });
  }
  return {
    events: count,
    producers,
    repeats,
    rawSql: figure(rounds.map(({ raw }) => 1 / raw.wall)),
    oneProducer: figure(rounds.map(({ one }) => 1 / one.wall)),
    oneInSmall: figure(rounds.map(({ small }) => 1 / small.wall)),
    manyProducers: figure(rounds.map(({ many }) => 1 / many.wall)),
    ratio: figure(rounds.map(({ raw, one }) => raw.wall / one.wall)),
    manyByOneWall: figure(rounds.map(({ one, many }) => many.wall / one.wall)),
    manyByOneCpu: optionalFigure(rounds.map(({ one, many }) => cpuRatio(many, one))),
    manyByOneInSmallWall: figure(rounds.map(({ small, many }) => many.wall / small.wall)),
    manyByOneInSmallCpu: optionalFigure(rounds.map(({ small, many }) => cpuRatio(many, small))),
    cpu: {
      rawSql: optionalFigure(rounds.map(({ raw }) => raw.postgres && raw.postgres * 1_000_000)),
      oneProducer: cpuFigures(rounds.map(({ one }) => one.cpu)),
      oneInSmall: cpuFigures(rounds.map(({ small }) => small.cpu)),
      manyProducers: cpuFigures(rounds.map(({ many }) => many.cpu)),
    },
  };
}

/** What was measured, for people. */
export function describeMetering(figures: MeteringFigures): string {
  const { cpu } = figures;
  const row = (name: string, rate: Figure, cpuOf: Partial<CpuFigures> | undefined) => [
    name,
    formatFigure(rate, 0),
    ...(['metering', 'postgres', 'nats'] as const).map((process) => {
      const micros = cpuOf?.[process];
      return micros ? formatFigure(micros, 1) : '';
    }),
  ];
  return [
    `${figures.events} events, ${figures.repeats} rounds: median (min–max)`,
    '',
    formatTable([
      ['', 'events/s', 'µs of CPU an event: metering', 'Postgres', 'NATS'],
      row('raw SQL', figures.rawSql, cpu.rawSql && { postgres: cpu.rawSql }),
      row('one producer', figures.oneProducer, cpu.oneProducer),
      row('one, in small batches', figures.oneInSmall, cpu.oneInSmall),
      row(`${figures.producers} producers`, figures.manyProducers, cpu.manyProducers),
    ]),
    '',
    `one producer / raw SQL: ${formatFigure(figures.ratio, 2)}, at least ${LEAST_RATIO}`,
    `an event of ${figures.producers} producers in batches of ${SMALL_BATCH_EVENTS}`,
    `  / of one in batches of ${FULL_BATCH_EVENTS}: ${times(figures.manyByOneWall, figures.manyByOneCpu)}`,
    `  / of one in batches of ${SMALL_BATCH_EVENTS}: ${times(figures.manyByOneInSmallWall, figures.manyByOneInSmallCpu)}`,
    'the ledger held every event once, and every bucket was the sum of its events',
  ].join('\n');
}

function times(wall: Figure, cpu: Figure | undefined): string {
  const ofCpu = cpu ? `, ${formatFigure(cpu, 2)} of the CPU of metering and Postgres` : '';
  return `${formatFigure(wall, 2)} of the time${ofCpu}`;
}

/** Seconds of an event. */
interface Round {
  readonly raw: { readonly wall: number; readonly postgres: number | undefined };
  readonly one: Taken;
  readonly small: Taken;
  readonly many: Taken;
}

async function measureRaw(run: TestRun, events: readonly MeasuredEvent[]): Promise<Round['raw']> {
  const database = await createTestDatabase(run);
  try {
    const postgres = await findPostmaster(database.url);
    const [warmUp, measured] = warmUpAndRest(events);
    await writeRaw(database.url, warmUp, RAW_TRANSACTION_EVENTS);
    const before = cpuSeconds(postgres);
    const start = performance.now();
    await writeRaw(database.url, measured, RAW_TRANSACTION_EVENTS);
    const wall = (performance.now() - start) / 1_000;
    const after = cpuSeconds(postgres);
    await checkLedger(database.url, events);
    const known = before !== undefined && after !== undefined;
    return { wall: wall / measured.length, postgres: known ? (after - before) / measured.length : undefined };
  } finally {
    await database.drop();
  }
}

async function measureStream(
  run: TestRun,
  events: readonly MeasuredEvent[],
  how: { readonly producers: number; readonly eventsPerBatch: number; readonly cpuProf: string | undefined },
): Promise<Taken> {
  const database = await createTestDatabase(run);
  try {
    const meterRun = await startMeterRun(run, database.url, how.cpuProf);
    try {
      const [warmUp, measured] = warmUpAndRest(measuredBatches(events, how));
      await meterRun.meter(warmUp);
      const taken = await meterRun.meter(measured);
      await checkLedger(database.url, events);
      return perEvent(
        taken,
        measured.reduce((sum, batch) => sum + batch.count, 0),
      );
    } finally {
      await meterRun.stop();
    }
  } finally {
    await database.drop();
  }
}

function warmUpAndRest<T>(items: readonly T[]): [warmUp: T[], rest: T[]] {
  const cut = Math.ceil(items.length / (1 + WARM_UP_SHARE));
  return [items.slice(0, cut), items.slice(cut)];
}

function perEvent({ wall, cpu }: Taken, events: number): Taken {
  return {
    wall: wall / events,
    cpu: cpu && {
      metering: cpu.metering / events,
      postgres: cpu.postgres / events,
      nats: cpu.nats / events,
    },
  };
}

function cpuRatio(one: Taken, other: Taken): number | undefined {
  return one.cpu && other.cpu && spent(one.cpu) / spent(other.cpu);
}

function spent({ metering, postgres }: NonNullable<Taken['cpu']>): number {
  return metering + postgres;
}

function cpuFigures(taken: readonly Taken['cpu'][]): CpuFigures | undefined {
  const micros = (process: keyof CpuFigures) =>
    optionalFigure(taken.map((cpu) => cpu && cpu[process] * 1_000_000));
  const [metering, postgres, nats] = [micros('metering'), micros('postgres'), micros('nats')];
  return metering && postgres && nats && { metering, postgres, nats };
}

/** Undefined where one is. */
function optionalFigure(values: readonly (number | undefined)[]): Figure | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === values.length ? figure(known) : undefined;
}
