import { Agent, request } from 'undici';
import { cpuSeconds } from '../cpu.ts';
import { type Figure, figure } from '../figures.ts';
import type { Absent, Contender } from './contender.ts';
import type { LoadOrder, LoadResult } from './loadOrder.ts';
import { PLAIN, type Planned, STREAMED } from './plan.ts';

/** What one contender did with one workload, in all measured rounds. */
export interface Cell {
  readonly contender: string;
  readonly workload: string;
  /** Each round by itself, in the order of the rounds: those of two contenders are neighbours in time. */
  readonly rounds: readonly Round[];
}

export interface Round {
  readonly requestsPerSecond: number;
  /** Microseconds of the contender's own CPU for each; NaN where that is not known. */
  readonly cpuMicros: number;
  /** Of its core, how much it used; likewise. */
  readonly cpuShare: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly firstByteP50Ms: number;
  /** How late the load generator itself was. */
  readonly lateP99Ms: number;
}

/** What a workload came to. */
export interface Measured {
  readonly cells: readonly Cell[];
  /** Those of others that could not answer it. */
  readonly absent: readonly Absent[];
}

export interface Field {
  readonly contenders: readonly Contender[];
  /** Of the load generator. */
  readonly loadUrl: string;
  /** Resolves when the usage of ours is in the ledger, so that nobody is measured beside its recording. */
  readonly settled: () => Promise<void>;
  readonly onProgress: (text: string) => void;
  /** How many requests of ours were answered. */
  readonly counted: { requests: number };
}

/** One request is enough for a wait that is never short of a round. */
const PATIENT = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
/** A contender that hardly reaches a rate would only queue at it. */
const SPARE = 1.3;
const MOST_WARM_UP_ROUNDS = 10;

/**
 * Measures one workload with all that take part in it, in turns, once they are warm. Left out is who has too little
 * throughput for a rate, and another product that answers wrongly; where ours does, or what is written here, nothing else
 * counts: it rejects.
 */
export async function measureWorkload(
  field: Field,
  planned: Planned,
  known: readonly Cell[],
): Promise<Measured> {
  const { workload, group, repeats } = planned;
  const absent = new Map<string, Absent>();
  const leaveOut = (name: string, reason: string) =>
    absent.set(name, { name: `${name}, ${workload.name}`, reason });
  const rounds = new Map<string, Round[]>();
  const asked = field.contenders.filter(({ groups }) => groups.includes(group));
  for (const { name } of asked) {
    const reason = tooSlow(planned, name, known);
    if (reason !== undefined) leaveOut(name, reason);
  }
  const each = async (turn: number, use: (contender: Contender) => Promise<void>) => {
    for (let at = 0; at < asked.length; at++) {
      // Nobody is always first.
      const contender = asked[(at + turn) % asked.length];
      if (!contender || absent.has(contender.name)) continue;
      try {
        await use(contender);
      } catch (error) {
        if (contender.expects === 'same bytes') throw error;
        leaveOut(contender.name, String(error));
      }
    }
  };
  field.onProgress(`${workload.name}: warming up`);
  await each(0, (contender) => warmUp(field, contender, planned));
  for (let repeat = 1; repeat <= repeats; repeat++) {
    field.onProgress(`${workload.name}: round ${repeat} of ${repeats}`);
    await each(repeat, async (contender) => {
      const { name } = contender;
      rounds.set(name, [...(rounds.get(name) ?? []), await measureRound(field, contender, planned)]);
    });
  }
  const cells = asked
    .filter(({ name }) => !absent.has(name))
    .map(({ name }) => ({ contender: name, workload: workload.name, rounds: rounds.get(name) ?? [] }));
  return { cells, absent: [...absent.values()] };
}

/** Why a contender can't keep a rate; undefined where it can, or nobody knows. */
function tooSlow({ workload }: Planned, name: string, known: readonly Cell[]): string | undefined {
  if (workload.rate === undefined) return undefined;
  const asFastAsItCan = workload.stream ? STREAMED.name : PLAIN.name;
  const rates = known
    .filter((cell) => cell.contender === name && cell.workload === asFastAsItCan)
    .flatMap(({ rounds }) => rounds.map(({ requestsPerSecond }) => requestsPerSecond));
  const most = Math.max(...rates);
  if (rates.length === 0 || most >= workload.rate * SPARE) return undefined;
  return `it reached ${most.toFixed(0)}/s without a rate, too little for this one`;
}

/** Until its code is compiled, which takes so many requests, unless that takes too long. */
async function warmUp(field: Field, contender: Contender, planned: Planned): Promise<void> {
  const deadline = performance.now() + planned.ms * MOST_WARM_UP_ROUNDS;
  const { rate: _rate, ...workload } = planned.workload;
  for (let answered = 0; answered < planned.warmUpRequests && performance.now() < deadline; ) {
    answered += (await loadOnce(field, contender, { ...planned, workload })).requests;
  }
}

async function measureRound(field: Field, contender: Contender, planned: Planned): Promise<Round> {
  const before = cpuOf(contender.pid);
  const start = performance.now();
  const result = await loadOnce(field, contender, planned);
  const seconds = (performance.now() - start) / 1_000;
  const cpu = cpuOf(contender.pid) - before;
  if (contender.isOurs) await field.settled();
  return {
    requestsPerSecond: result.measured / result.seconds,
    cpuMicros: (cpu / result.requests) * 1_000_000,
    cpuShare: cpu / seconds,
    p50Ms: result.latencyMs.p50,
    p99Ms: result.latencyMs.p99,
    firstByteP50Ms: result.firstByteMs.p50,
    lateP99Ms: result.lateMs.p99,
  };
}

async function loadOnce(field: Field, contender: Contender, planned: Planned): Promise<LoadResult> {
  const { workload, connections, ms } = planned;
  const { url, path, headers, tokens, expects } = contender;
  const result = await load(field.loadUrl, {
    url,
    path,
    headers,
    tokens,
    expects,
    workload,
    connections,
    ms,
  });
  if (contender.isOurs) field.counted.requests += result.requests;
  return result;
}

/** Rejects with what was wrong at the first answer that is not right. */
export async function load(loadUrl: string, order: LoadOrder): Promise<LoadResult> {
  const { statusCode, body } = await request(loadUrl, {
    method: 'POST',
    body: JSON.stringify(order),
    dispatcher: PATIENT,
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`${order.workload.name}: ${text}`);
  return JSON.parse(text) as LoadResult;
}

function cpuOf(pid: number | undefined): number {
  return cpuSeconds(pid) ?? Number.NaN;
}

/** One of a cell's figures over its rounds. */
export function over(cell: Cell, of: (round: Round) => number): Figure {
  return figure(cell.rounds.map(of));
}
