import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import { checkLedger } from './checkLedger.ts';
import { cpuSeconds, findPostmaster } from './cpu.ts';
import { type Figure, figure } from './figures.ts';
import { type MeterRun, startMeterRun, type Taken } from './meterRun.ts';
import { writeRaw } from './rawFloor.ts';
import { type MeasuredBatch, type MeasuredEvent, measuredBatches, measuredEvents } from './usage.ts';

/** As large as a proxy's batches are under load. */
export const FULL_BATCH_EVENTS = 256;
/** As large as they are where a proxy sends what it has every 20 ms. */
export const SMALL_BATCH_EVENTS = 4;
const RAW_TRANSACTION_EVENTS = 1_000;
/** Of one producer at its own pace. */
const ALONE_BATCHES = 40;
/** One event for so many that are measured. */
const WARM_UP_SHARE = 3;

export interface MeteringOptions {
  /** Measured each time, and of a stream twice, after a third as many for warming up. */
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
  readonly rawSql: {
    /** Events a second. */
    readonly rate: Figure;
    /** Microseconds of Postgres' CPU an event. */
    readonly postgres: Figure | undefined;
  };
  /** With the producers on the same machine, at the same time. */
  readonly beside: StreamFigures;
  /** What the producers had published before, as after an outage. */
  readonly drained: StreamFigures;
  /** One of the many by itself, in the same batches and at the pace that each of them had beside. */
  readonly alone: StreamFigure & {
    /** What an event costs from many, by that. */
    readonly manyByIt: Figure | undefined;
  };
}

export interface StreamFigures {
  readonly oneProducer: StreamFigure;
  /** In the small batches of many. */
  readonly oneInSmall: StreamFigure;
  readonly manyProducers: StreamFigure;
  /** One producer's rate by that of raw SQL, each pair measured next to each other. */
  readonly ratio: Figure;
  /** What an event costs from many producers in small batches, by what it costs from one in full ones. */
  readonly manyByOne: Ratios;
  /** The same by what it costs from one producer in small batches: what the number of producers alone makes of it. */
  readonly manyByOneInSmall: Ratios;
}

interface StreamFigure {
  /** Events a second. */
  readonly rate: Figure;
  /** Microseconds an event. */
  readonly cpu: CpuFigures | undefined;
}

export interface Ratios {
  readonly wall: Figure;
  /** Of metering and Postgres. */
  readonly cpu: Figure | undefined;
}

export interface CpuFigures {
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
  const events = measuredEvents(count * 2 + Math.ceil(count / WARM_UP_SHARE), new Date());
  const rawEvents = events.slice(0, count + Math.ceil(count / WARM_UP_SHARE));
  const rounds: Round[] = [];
  for (let round = 1; round <= repeats; round++) {
    const stream = async (name: string, producers: number, eventsPerBatch: number) => {
      onProgress(`round ${round} of ${repeats}: ${name}`);
      return await measureStream(run, events, count, { producers, eventsPerBatch, cpuProf });
    };
    onProgress(`round ${round} of ${repeats}: raw SQL`);
    const raw = await measureRaw(run, rawEvents);
    const one = await stream('one producer', 1, FULL_BATCH_EVENTS);
    const small = await stream('one producer in small batches', 1, SMALL_BATCH_EVENTS);
    const many = await stream(`${producers} producers`, producers, SMALL_BATCH_EVENTS);
    onProgress(`round ${round} of ${repeats}: one of them by itself`);
    const alone = await measureAlone(run, many.beside.wall * producers);
    rounds.push({ raw, one, small, many, alone });
  }
  return {
    events: count,
    producers,
    repeats,
    rawSql: {
      rate: figure(rounds.map(({ raw }) => 1 / raw.wall)),
      postgres: optionalFigure(rounds.map(({ raw }) => raw.postgres && raw.postgres * 1_000_000)),
    },
    beside: streamFigures(rounds, 'beside'),
    drained: streamFigures(rounds, 'drained'),
    alone: {
      rate: figure(rounds.map(({ alone }) => 1 / alone.wall)),
      cpu: cpuFigures(rounds.map(({ alone }) => alone.cpu)),
      manyByIt: optionalFigure(rounds.map(({ many, alone }) => cpuRatio(many.beside, alone))),
    },
  };
}

function streamFigures(rounds: readonly Round[], how: keyof TakenBoth): StreamFigures {
  const of = (source: 'one' | 'small' | 'many'): StreamFigure => ({
    rate: figure(rounds.map((round) => 1 / round[source][how].wall)),
    cpu: cpuFigures(rounds.map((round) => round[source][how].cpu)),
  });
  const manyBy = (source: 'one' | 'small'): Ratios => ({
    wall: figure(rounds.map((round) => round.many[how].wall / round[source][how].wall)),
    cpu: optionalFigure(rounds.map((round) => cpuRatio(round.many[how], round[source][how]))),
  });
  return {
    oneProducer: of('one'),
    oneInSmall: of('small'),
    manyProducers: of('many'),
    ratio: figure(rounds.map(({ raw, one }) => raw.wall / one[how].wall)),
    manyByOne: manyBy('one'),
    manyByOneInSmall: manyBy('small'),
  };
}

/** Seconds of an event. */
interface Round {
  readonly raw: { readonly wall: number; readonly postgres: number | undefined };
  readonly one: TakenBoth;
  readonly small: TakenBoth;
  readonly many: TakenBoth;
  readonly alone: Taken;
}

interface TakenBoth {
  readonly beside: Taken;
  readonly drained: Taken;
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
  count: number,
  how: { readonly producers: number; readonly eventsPerBatch: number; readonly cpuProf: string | undefined },
): Promise<TakenBoth> {
  return await withMeterRun(run, events, how.cpuProf, async (meterRun) => {
    const batches = measuredBatches(events, how);
    const measured = Math.round((batches.length * count) / events.length);
    const [first, second] = [batches.length - 2 * measured, batches.length - measured];
    await meterRun.meter(batches.slice(0, first));
    const beside = await meterRun.meter(batches.slice(first, second));
    const drained = await meterRun.drain(batches.slice(second));
    return {
      beside: perEvent(beside, eventsIn(batches.slice(first, second))),
      drained: perEvent(drained, eventsIn(batches.slice(second))),
    };
  });
}

/** One producer in small batches, an event every so many seconds. */
async function measureAlone(run: TestRun, secondsPerEvent: number): Promise<Taken> {
  const events = measuredEvents(ALONE_BATCHES * SMALL_BATCH_EVENTS, new Date());
  return await withMeterRun(run, events, undefined, async (meterRun) => {
    const batches = measuredBatches(events, { producers: 1, eventsPerBatch: SMALL_BATCH_EVENTS });
    const taken = await meterRun.pace(batches, secondsPerEvent * SMALL_BATCH_EVENTS * 1_000);
    return perEvent(taken, events.length);
  });
}

/** Measures with a database and a worker of their own, and looks whether the ledger holds these events afterwards. */
async function withMeterRun<T>(
  run: TestRun,
  events: readonly MeasuredEvent[],
  cpuProf: string | undefined,
  measure: (meterRun: MeterRun) => Promise<T>,
): Promise<T> {
  const database = await createTestDatabase(run);
  try {
    const meterRun = await startMeterRun(run, database.url, cpuProf);
    try {
      const measured = await measure(meterRun);
      await checkLedger(database.url, events);
      return measured;
    } finally {
      await meterRun.stop();
    }
  } finally {
    await database.drop();
  }
}

function eventsIn(batches: readonly MeasuredBatch[]): number {
  return batches.reduce((sum, batch) => sum + batch.count, 0);
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
