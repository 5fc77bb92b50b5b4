import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import { checkLedger } from '../shared/checkLedger.ts';
import { cpuSeconds, findPostmaster } from '../shared/cpu.ts';
import { type Figure, figure } from '../shared/figures.ts';
import {
  type GeneratedBatch,
  type GeneratedEvent,
  generateBatches,
  generateEvents,
} from '../shared/generateUsage.ts';
import { type MeteringRun, startMeteringRun, type Timing } from './meteringRun.ts';
import { writeWithRawSql } from './rawSql.ts';

/** The size of a proxy's batches under load. */
export const FULL_BATCH_EVENTS = 256;
/** The size of the batches of a proxy with few requests, which sends every 20 ms. */
export const SMALL_BATCH_EVENTS = 4;
const RAW_TRANSACTION_EVENTS = 1_000;
/** Batches of one producer at its own pace. */
const ALONE_BATCHES = 40;
/** Measured events per warm-up event. */
const WARM_UP_SHARE = 3;

export interface MeteringOptions {
  /** Events per measurement (a stream has two), after a third as many to warm up. */
  readonly events: number;
  readonly producers: number;
  readonly repeats: number;
  /** Folder for CPU profiles of the workers; without it there are none. */
  readonly cpuProf?: string;
  readonly onProgress: (text: string) => void;
}

export interface MeteringFigures {
  readonly events: number;
  readonly producers: number;
  readonly repeats: number;
  readonly rawSql: {
    /** Events per second. */
    readonly rate: Figure;
    /** Microseconds of Postgres's CPU per event. */
    readonly postgres: Figure | undefined;
  };
  /** With the producers on the same machine, at the same time. */
  readonly beside: StreamFigures;
  /** With all events published before metering starts, as after an outage. */
  readonly drained: StreamFigures;
  /** One of the many producers alone, with the same batches and at the pace that each had in `beside`. */
  readonly alone: StreamFigure & {
    /** CPU per event of many producers relative to this one. */
    readonly manyByIt: Figure | undefined;
  };
}

export interface StreamFigures {
  readonly oneProducer: StreamFigure;
  /** One producer in small batches, as many producers send. */
  readonly oneInSmall: StreamFigure;
  readonly manyProducers: StreamFigure;
  /** One producer's rate relative to raw SQL, in pairs of adjacent measurements. */
  readonly ratio: Figure;
  /** Cost per event of many producers in small batches, relative to one producer in full batches. */
  readonly manyByOne: Ratios;
  /** The same relative to one producer in small batches: the effect of the number of producers alone. */
  readonly manyByOneInSmall: Ratios;
}

interface StreamFigure {
  /** Events per second. */
  readonly rate: Figure;
  /** Microseconds per event. */
  readonly cpu: CpuFigures | undefined;
}

export interface Ratios {
  readonly wall: Figure;
  /** CPU of metering and Postgres together. */
  readonly cpu: Figure | undefined;
}

export interface CpuFigures {
  readonly metering: Figure;
  readonly postgres: Figure;
  readonly nats: Figure;
}

/**
 * Measures events per second through NATS and metering into Postgres, relative to the same rows written to the same
 * Postgres from memory; and the cost of an event in the small batches of many producers. Each measurement has its own
 * database, NATS and worker, is warmed up, and is checked: every event once, every bucket the sum of its events.
 */
export async function measureMetering(run: TestRun, options: MeteringOptions): Promise<MeteringFigures> {
  const { events: count, producers, repeats, cpuProf, onProgress } = options;
  const events = generateEvents(eventsOfStream(count), new Date());
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
    rounds.push({ raw, one, small, many });
  }
  // Once: at its own pace it takes as long as all others of a round together, and its ratio is far from 1.
  onProgress('one of them alone');
  const pace = figure(rounds.map(({ many }) => many.beside.wall)).median;
  const alone = await measureAlone(run, pace * producers);
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
      rate: figure([1 / alone.wall]),
      cpu: cpuFigures([alone.cpu]),
      manyByIt: optionalFigure(rounds.map(({ many }) => cpuRatio(many.beside, alone))),
    },
  };
}

function streamFigures(rounds: readonly Round[], how: keyof Timings): StreamFigures {
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

/** Seconds per event. */
interface Round {
  readonly raw: { readonly wall: number; readonly postgres: number | undefined };
  readonly one: Timings;
  readonly small: Timings;
  readonly many: Timings;
}

interface Timings {
  readonly beside: Timing;
  readonly drained: Timing;
}

/** One writer of the same rows, from memory. */
export async function measureRaw(run: TestRun, events: readonly GeneratedEvent[]): Promise<Round['raw']> {
  const database = await createTestDatabase(run);
  try {
    const postgres = await findPostmaster(database.url);
    const [warmUp, measured] = warmUpAndRest(events);
    await writeWithRawSql(database.url, warmUp, RAW_TRANSACTION_EVENTS);
    const before = cpuSeconds(postgres);
    const start = performance.now();
    await writeWithRawSql(database.url, measured, RAW_TRANSACTION_EVENTS);
    const wall = (performance.now() - start) / 1_000;
    const after = cpuSeconds(postgres);
    await checkLedger(database.url, events);
    const known = before !== undefined && after !== undefined;
    return { wall: wall / measured.length, postgres: known ? (after - before) / measured.length : undefined };
  } finally {
    await database.drop();
  }
}

/** How many `measureStream` needs to measure this many twice. */
export function eventsOfStream(count: number): number {
  return count * 2 + Math.ceil(count / WARM_UP_SHARE);
}

/** Through NATS and metering, after a warm-up. */
export async function measureStream(
  run: TestRun,
  events: readonly GeneratedEvent[],
  count: number,
  how: { readonly producers: number; readonly eventsPerBatch: number; readonly cpuProf?: string | undefined },
): Promise<Timings> {
  return await withMeteringRun(run, events, how.cpuProf, async (meteringRun) => {
    const batches = generateBatches(events, how);
    const measured = Math.round((batches.length * count) / events.length);
    const [first, second] = [batches.length - 2 * measured, batches.length - measured];
    await meteringRun.meter(batches.slice(0, first));
    const beside = await meteringRun.meter(batches.slice(first, second));
    const drained = await meteringRun.drain(batches.slice(second));
    return {
      beside: perEvent(beside, eventsIn(batches.slice(first, second))),
      drained: perEvent(drained, eventsIn(batches.slice(second))),
    };
  });
}

/** Measures one producer in small batches, at this pace. */
async function measureAlone(run: TestRun, secondsPerEvent: number): Promise<Timing> {
  const events = generateEvents(ALONE_BATCHES * SMALL_BATCH_EVENTS, new Date());
  return await withMeteringRun(run, events, undefined, async (meteringRun) => {
    const batches = generateBatches(events, { producers: 1, eventsPerBatch: SMALL_BATCH_EVENTS });
    const timing = await meteringRun.pace(batches, secondsPerEvent * SMALL_BATCH_EVENTS * 1_000);
    return perEvent(timing, events.length);
  });
}

/** Measures with a new database and worker, then checks that the ledger has these events. */
async function withMeteringRun<T>(
  run: TestRun,
  events: readonly GeneratedEvent[],
  cpuProf: string | undefined,
  measure: (meteringRun: MeteringRun) => Promise<T>,
): Promise<T> {
  const database = await createTestDatabase(run);
  try {
    const meteringRun = await startMeteringRun(run, database.url, cpuProf);
    try {
      const measured = await measure(meteringRun);
      await checkLedger(database.url, events);
      return measured;
    } finally {
      await meteringRun.stop();
    }
  } finally {
    await database.drop();
  }
}

function eventsIn(batches: readonly GeneratedBatch[]): number {
  return batches.reduce((sum, batch) => sum + batch.count, 0);
}

function warmUpAndRest<T>(items: readonly T[]): [warmUp: T[], rest: T[]] {
  const cut = Math.ceil(items.length / (1 + WARM_UP_SHARE));
  return [items.slice(0, cut), items.slice(cut)];
}

function perEvent({ wall, cpu }: Timing, events: number): Timing {
  return {
    wall: wall / events,
    cpu: cpu && {
      metering: cpu.metering / events,
      postgres: cpu.postgres / events,
      nats: cpu.nats / events,
    },
  };
}

function cpuRatio(one: Timing, other: Timing): number | undefined {
  return one.cpu && other.cpu && spent(one.cpu) / spent(other.cpu);
}

function spent({ metering, postgres }: NonNullable<Timing['cpu']>): number {
  return metering + postgres;
}

function cpuFigures(cpus: readonly Timing['cpu'][]): CpuFigures | undefined {
  const micros = (process: keyof CpuFigures) =>
    optionalFigure(cpus.map((cpu) => cpu && cpu[process] * 1_000_000));
  const [metering, postgres, nats] = [micros('metering'), micros('postgres'), micros('nats')];
  return metering && postgres && nats && { metering, postgres, nats };
}

/** Undefined if any value is. */
function optionalFigure(values: readonly (number | undefined)[]): Figure | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === values.length ? figure(known) : undefined;
}
