import { setTimeout as sleep } from 'node:timers/promises';
import { manage } from '../mainJob.ts';
import type { Caller, Cluster } from './cluster.ts';
import { type WatchedProcesses, watchCpuWaits } from './cpuWaits.ts';
import type { DayReport } from './dayReport.ts';
import { callWaitedMs, explain, POSTGRES } from './explained.ts';
import { createLoad, type LoadRequest, ordinary, type SentRequest, slowStream } from './load.ts';
import type { Random } from './random.ts';
import { FAULTS, type Fault, type FaultContext, OUTAGES, stepClock } from './randomFaults.ts';
import { inWords, reconcile } from './reconciliation.ts';
import { watchAnswers } from './slowAnswers.ts';
import { heldBy, type Slice } from './soak.ts';
import { Weather } from './storms.ts';

/** A minute of a busy day: load, faults one after the other, storms of the vendor beside them, and then the books. */
export interface Minute {
  /** The faults survived by every process, so that its memory can be compared, or all of them. */
  readonly kind: 'outages' | 'all faults';
  readonly number: number;
  readonly lengthMs: number;
}

export interface DayContext {
  readonly cluster: Cluster;
  readonly random: Random;
  readonly seed: number;
  readonly report: DayReport;
  readonly log: (kind: string, text: string) => void;
  readonly inLog: (atMs: number) => string;
}

export interface MinuteResult {
  readonly violations: readonly string[];
  readonly requests: number;
  /** What the apps hold after it. */
  readonly held: Slice['held'];
}

const SETTLE_TIMEOUT_MS = 180_000;
const AT_ONCE = 4;
const BETWEEN_REQUESTS_MS = 10;
const LARGE_LIMIT = 500_000_000;
/** Runs out within a minute. */
const SMALL_LIMIT = 20_000;
const MAX_REPORTED = 20;
const LINES = 2;
const LINE_LENGTH = 3_000;

export async function busyMinute(context: DayContext, minute: Minute): Promise<MinuteResult> {
  const { cluster, random, seed, report, log, inLog } = context;
  const endsAt = performance.now() + minute.lengthMs;
  const weather = new Weather();
  const answers = watchAnswers(cluster);
  const cpu = watchCpuWaits(processesOf(cluster));
  const budgets = await callersOf(cluster, minute.number);
  const loads = budgets.map((budget, at) => ({
    ...budget,
    load: createLoad({
      caller: budget.caller,
      seed: seed + minute.number * 10 + at,
      proxies: cluster.proxies,
      nextRequest: (own) => nextRequest(own, weather, budget.isSmall),
      atOnce: AT_ONCE,
    }),
  }));
  const captured = cluster.nats.capture();
  const unwritable: FaultContext['unwritable'] = [];
  const running = loads.map(({ load }) => load.start(BETWEEN_REQUESTS_MS));
  const faults: readonly Fault[] = [...(minute.kind === 'outages' ? OUTAGES : FAULTS), stepClock];
  /** A fault may find what the one before left: a stream that is not yet there again. */
  const mend = async (error: Error) => {
    await cluster.restore();
    return `none: ${error.message}`;
  };
  const during = async (next: () => Promise<string>, pauseMs: number) => {
    while (performance.now() < endsAt) {
      await sleep(500 + random.integer(pauseMs));
      const fault = await next().catch(mend);
      report.fault(fault);
      log('fault', fault);
    }
  };
  await Promise.all([
    during(() => random.pick(faults)({ cluster, random, captured: captured.messages, unwritable }), 3_000),
    during(() => weather.rage(random, (atMostMs) => sleep(random.integer(atMostMs))), 12_000),
  ]);
  await Promise.all(running.map((one) => one.stop()));
  await captured.stop();
  await answers.stop();
  await cpu.stop();
  await cluster.restore();
  const violations: string[] = await cluster.settled(SETTLE_TIMEOUT_MS).then(
    () => [],
    (error: Error) => [error.message],
  );
  const mayBeEstimated = ({ endedAt }: SentRequest) =>
    unwritable.some(({ from, to }) => from <= endedAt && endedAt <= to);
  const reasons = { storms: weather.outages, slowAnswers: answers.outages, cpu: cpu.waits };
  const outcomes = new Map<string, number>();
  for (const { caller, load, limit, isSmall } of loads) {
    const reconciliation = await reconcile(cluster, caller, load.sent, { mayBeEstimated });
    log('figures', `${caller.name}: ${inWords(reconciliation)}`);
    report.reconciled(reconciliation);
    violations.push(...reconciliation.violations);
    const { exactLedger, estimatedLedger } = reconciliation.figures;
    if (exactLedger + estimatedLedger > BigInt(limit) * 1_000n)
      violations.push(
        `${caller.name}: ${exactLedger + estimatedLedger} nano-USD by a limit of ${limit} micro-USD`,
      );
    for (const one of load.sent) {
      const isRefusal = isSmall && /^budget_(exhausted|contended)$/.test(one.code ?? '');
      const why = isRefusal ? 'beyond a small budget' : explain(cluster, reasons, one);
      report.outcome(why ?? 'unexplained');
      if (why === undefined) {
        const { startedAt, endedAt } = one;
        const when = `from ${inLog(startedAt)} to ${inLog(endedAt)}`;
        const waited = `${callWaitedMs(cluster, cpu.waits, one).toFixed(0)} ms without a CPU`;
        violations.push(`${inDetail(one)}, ${when}, ${waited}: nothing explains it${said(cluster, one)}`);
      } else outcomes.set(why, (outcomes.get(why) ?? 0) + 1);
    }
  }
  const { times, ms } = answers.outages.total;
  log('slow', `the control plane, or what it needs, ${times} times, ${(ms / 1_000).toFixed(1)} s`);
  log('outcomes', [...outcomes].map(([why, count]) => `${count} ${why}`).join('; '));
  for (const violation of violations.slice(0, MAX_REPORTED)) log('WRONG', violation);
  log('result', violations.length === 0 ? 'exact' : `${violations.length} violations`);
  const held = await heldBy(cluster);
  cluster.vendor.clear();
  return { violations, requests: loads.reduce((sum, { load }) => sum + load.sent.length, 0), held };
}

function processesOf({ controlPlanes, proxies, postgres }: Cluster): readonly WatchedProcesses[] {
  const apps = [...controlPlanes, ...proxies].map((app) => ({ name: app.name, pids: async () => [app.pid] }));
  return postgres ? [...apps, { name: POSTGRES, pids: () => postgres.pids() }] : apps;
}

function inDetail({ number, status, end, code, proxy, request }: SentRequest): string {
  return `${number}: ${status} ${code ?? 'without a code'} (${end}) by ${proxy}, ${request.path}`;
}

/** What the proxy logged of it, if it still runs. */
function said({ proxies }: Cluster, { proxy: name, code }: SentRequest): string {
  const proxy = proxies.find((one) => one.name === name);
  const lines = proxy?.output().split('\n') ?? [];
  const found = code === undefined ? [] : lines.filter((line) => line.includes(code));
  return found
    .slice(-LINES)
    .map((line) => `\n${line.slice(0, LINE_LENGTH)}`)
    .join('');
}

interface Budget {
  readonly caller: Caller;
  /** In micro-USD. */
  readonly limit: number;
  readonly isSmall: boolean;
}

/** New ones each time: their first requests need leases, and keys that no proxy has seen. */
async function callersOf(cluster: Cluster, number: number): Promise<readonly Budget[]> {
  const modes = [
    ['balanced', LARGE_LIMIT],
    ['hard', LARGE_LIMIT],
    ['small', SMALL_LIMIT],
  ] as const;
  return await Promise.all(
    modes.map(async ([mode, limit]) => {
      const isSmall = mode === 'small';
      const name = `${mode}-${number}`;
      const policy = await manage(cluster, 'POST', '/api/v1/policies', {
        body: {
          name,
          limit_micro_usd: limit,
          window: 'month',
          counter_scope: 'key',
          budget_mode: isSmall ? 'hard' : mode,
        },
      });
      if (policy.status !== 201) throw new Error(`no policy for ${name}: ${JSON.stringify(policy.body)}`);
      return { caller: await cluster.caller(name, { policy_id: policy.body.id }), limit, isSmall };
    }),
  );
}

function nextRequest(random: Random, weather: Weather, isSmall: boolean): LoadRequest {
  const request = random.chance(0.1)
    ? slowStream(1 + random.integer(60), random.integer(40))
    : ordinary(random);
  const { headers, path } = request;
  const limited = isSmall && path === '/v1/chat/completions' ? { max_tokens: 100 } : {};
  return {
    path,
    body: { ...request.body, ...limited },
    headers: { ...headers, ...weather.headers(random) },
    ...(random.chance(0.05) && { disconnectsAfter: random.integer(2_000) - 1 }),
  };
}
