import { Agent, request } from 'undici';
import type { NodeObserver } from '../observe/nodeFigures.ts';
import { type Records, servingProcesses, startRecording } from '../observe/records.ts';
import { cpuSeconds } from '../shared/cpu.ts';
import { type Figure, figure } from '../shared/figures.ts';
import type { Absent, Contender } from './contender.ts';
import type { LoadOrder, LoadResult } from './loadOrder.ts';
import { PLAIN, type PlannedWorkload, STREAMED } from './plan.ts';
import { type Turns, whileOneRuns } from './turns.ts';

/** All measured rounds of one contender with one workload. */
export interface Cell {
  readonly contender: string;
  readonly workload: string;
  /** In order: rounds of two contenders with the same index are adjacent in time. */
  readonly rounds: readonly Round[];
}

export interface Round {
  readonly requestsPerSecond: number;
  /** Microseconds of the contender's CPU per request; NaN if unknown. */
  readonly cpuMicros: number;
  /** Share of one core that it used; NaN if unknown. */
  readonly cpuShare: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly firstByteP50Ms: number;
  readonly firstByteP99Ms: number;
  /** How much later than due the load generator sent. */
  readonly lateP99Ms: number;
  /** Share of a core that the other contenders used meanwhile, idle as they were. */
  readonly othersShare: number;
  readonly records?: Records;
}

/** The result of a workload. */
export interface Measured {
  readonly cells: readonly Cell[];
  /** Contenders that were left out, and why. */
  readonly absent: readonly Absent[];
}

export interface Setup {
  readonly contenders: readonly Contender[];
  readonly turns: Turns;
  /** URL of the load generator. */
  readonly loadUrl: string;
  /** Resolves when Weighbridge's usage is in the ledger, so that recording disturbs no other contender. */
  readonly settled: () => Promise<void>;
  readonly observer: NodeObserver;
  readonly onProgress: (text: string) => void;
  /** Requests that Weighbridge answered. */
  readonly counted: { requests: number };
}

/** Without time-outs: a round may take long. */
const NO_TIMEOUT = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
/** A contender must reach this multiple of a rate, or it would only queue. */
const RATE_MARGIN = 1.3;
const MAX_WARM_UP_ROUNDS = 10;
const MAX_WARM_UP_MS = 2_000;
/** Also where the lane has one caller. */
const MIN_WARM_UP_CONNECTIONS = 8;

/**
 * Warms up all contenders of a workload, then measures them in turns. Leaves out contenders too slow for a rate, and other
 * products that respond wrongly. Rejects if Weighbridge or a contender of this package responds wrongly.
 */
export async function measureWorkload(
  setup: Setup,
  planned: PlannedWorkload,
  known: readonly Cell[],
): Promise<Measured> {
  const { workload, group, repeats } = planned;
  const absent = new Map<string, Absent>();
  const leaveOut = (name: string, reason: string) =>
    absent.set(name, { name: `${name}, ${workload.name}`, reason });
  const rounds = new Map<string, Round[]>();
  const participants = setup.contenders.filter(({ groups }) => groups.includes(group));
  for (const { name } of participants) {
    const reason = tooSlow(planned, name, known);
    if (reason !== undefined) leaveOut(name, reason);
  }
  const each = async (turn: number, use: (contender: Contender) => Promise<void>) => {
    for (let at = 0; at < participants.length; at++) {
      // Each turn starts with another contender.
      const contender = participants[(at + turn) % participants.length];
      if (!contender || absent.has(contender.name)) continue;
      try {
        await setup.turns.of(contender, () => use(contender));
      } catch (error) {
        if (contender.expects === 'same bytes') throw error;
        leaveOut(contender.name, String(error));
      }
    }
  };
  setup.onProgress(`${workload.name}: warming up`);
  await each(0, (contender) => warmUp(setup, contender, planned));
  for (let repeat = 1; repeat <= repeats; repeat++) {
    setup.onProgress(`${workload.name}: round ${repeat} of ${repeats}`);
    await each(repeat, async (contender) => {
      const { name } = contender;
      rounds.set(name, [...(rounds.get(name) ?? []), await measureRound(setup, contender, planned)]);
    });
  }
  const cells = participants
    .filter(({ name }) => !absent.has(name))
    .map(({ name }) => ({ contender: name, workload: workload.name, rounds: rounds.get(name) ?? [] }));
  return { cells, absent: [...absent.values()] };
}

/** Why a contender cannot keep a rate; undefined if it can, or if its throughput is unknown. */
function tooSlow({ workload }: PlannedWorkload, name: string, known: readonly Cell[]): string | undefined {
  if (workload.rate === undefined) return undefined;
  const closedLoop = workload.stream ? STREAMED.name : PLAIN.name;
  const rates = known
    .filter((cell) => cell.contender === name && cell.workload === closedLoop)
    .flatMap(({ rounds }) => rounds.map(({ requestsPerSecond }) => requestsPerSecond));
  const maxRate = Math.max(...rates);
  if (rates.length === 0 || maxRate >= workload.rate * RATE_MARGIN) return undefined;
  return `it reached only ${maxRate.toFixed(0)}/s at full load, too little for this rate`;
}

/**
 * Sends the warm-up requests, in which the contender's code is compiled, for at most some rounds' time. Each process compiles
 * for itself, and the system may give all connections to one of several: so they take turns.
 */
async function warmUp(setup: Setup, contender: Contender, planned: PlannedWorkload): Promise<void> {
  const pids = servingProcesses(contender);
  if (pids.length < 2) return await warmUpBy(setup, contender, planned, (send) => send());
  for (const pid of pids) {
    await warmUpBy(setup, contender, planned, (send) => whileOneRuns(pids, pid, send));
  }
}

async function warmUpBy(
  setup: Setup,
  contender: Contender,
  planned: PlannedWorkload,
  sending: (send: () => Promise<LoadResult>) => Promise<LoadResult>,
): Promise<void> {
  const { warmUpRequests } = planned;
  const { rate: _rate, isPaced: _paced, ...workload } = planned.workload;
  const connections = Math.max(planned.connections, MIN_WARM_UP_CONNECTIONS);
  const ms = Math.min(planned.ms, MAX_WARM_UP_MS);
  const deadline = performance.now() + ms * MAX_WARM_UP_ROUNDS;
  for (let answered = 0; answered < warmUpRequests && performance.now() < deadline; ) {
    const order = { ...planned, ms, connections, workload, maxRequests: warmUpRequests };
    answered += (await sending(() => loadOnce(setup, contender, order))).requests;
  }
}

/** Compiles the code of contenders that answer plain requests, before the first workload. */
export async function warmUpAll(setup: Setup, planned: PlannedWorkload): Promise<readonly Absent[]> {
  const absent: Absent[] = [];
  setup.onProgress('warming up');
  for (const contender of setup.contenders.filter(({ groups }) => groups.includes(planned.group))) {
    try {
      await setup.turns.of(contender, () => warmUp(setup, contender, planned));
    } catch (error) {
      if (contender.expects === 'same bytes') throw error;
      absent.push({ name: contender.name, reason: String(error) });
    }
  }
  await setup.settled();
  return absent;
}

async function measureRound(setup: Setup, contender: Contender, planned: PlannedWorkload): Promise<Round> {
  const endRecording = await startRecording(contender, setup.observer);
  const othersBefore = setup.turns.cpuOfOthers(contender);
  const before = cpuOf(contender.pid);
  const start = performance.now();
  const result = await loadOnce(setup, contender, planned);
  const seconds = (performance.now() - start) / 1_000;
  const cpu = cpuOf(contender.pid) - before;
  const cpuOfOthers = setup.turns.cpuOfOthers(contender) - othersBefore;
  const records = await endRecording(result.requests);
  if (contender.isOurs) await setup.settled();
  return {
    requestsPerSecond: result.measured / result.seconds,
    cpuMicros: (cpu / result.requests) * 1_000_000,
    cpuShare: cpu / seconds,
    p50Ms: result.latencyMs.p50,
    p99Ms: result.latencyMs.p99,
    firstByteP50Ms: result.firstByteMs.p50,
    firstByteP99Ms: result.firstByteMs.p99,
    lateP99Ms: result.lateMs.p99,
    othersShare: cpuOfOthers / seconds,
    records,
  };
}

async function loadOnce(setup: Setup, contender: Contender, planned: PlannedWorkload): Promise<LoadResult> {
  const { workload, connections, ms, maxRequests } = planned;
  const { url, path, headers, expects, model } = contender;
  // One caller has one key.
  const tokens = connections === 1 ? contender.tokens.slice(0, 1) : contender.tokens;
  const order = { url, path, headers, tokens, expects, workload, connections, ms };
  const result = await load(setup.loadUrl, {
    ...order,
    ...(model !== undefined && { model }),
    ...(maxRequests !== undefined && { maxRequests }),
  });
  if (contender.isOurs) setup.counted.requests += result.requests;
  return result;
}

/** Runs an order on the load generator. Rejects at the first wrong response, with what was wrong. */
export async function load(loadUrl: string, order: LoadOrder): Promise<LoadResult> {
  const { statusCode, body } = await request(loadUrl, {
    method: 'POST',
    body: JSON.stringify(order),
    dispatcher: NO_TIMEOUT,
  });
  const text = await body.text();
  if (statusCode !== 200) throw new Error(`${order.workload.name}: ${text}`);
  return JSON.parse(text) as LoadResult;
}

function cpuOf(pid: number | undefined): number {
  return cpuSeconds(pid) ?? Number.NaN;
}

/** A figure of a cell over its rounds. */
export function figureOf(cell: Cell, metric: (round: Round) => number): Figure {
  return figure(cell.rounds.map(metric));
}
