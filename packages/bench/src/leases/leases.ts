import { create } from '@bufbuild/protobuf';
import { type BudgetedPolicy, bucketKey, LeaseBook, type LeaseBookDeps } from '@weighbridge/budget';
import {
  BucketRefSchema,
  BudgetLease_Outcome,
  type LeaseResponse,
  LeaseResponseSchema,
} from '@weighbridge/contracts';
import { type Figure, figure, formatFigure } from '../shared/figures.ts';
import { loadLine } from '../shared/machine.ts';

const COST = 1_000_000n;
/** A policy and its parent, as for most keys. */
const POLICIES = ['policy_team', 'policy_department'];
const REQUESTS_PER_ROUND = 200_000;
const AT_ONCE = 64;
const MAX_MICROS = 3;
/** How long a simulated request takes, in milliseconds. */
const REQUEST_MS = 300;
const CALL_MS = 5;
/** How long the simulated limit lasts, and how much of that is simulated: in the last tenth the limit is near. */
const LIMIT_SECONDS = 100;
const SIMULATED_SECONDS = 90;
const MAX_CALLS = 5;

export interface LeaseOptions {
  readonly rounds: number;
  /** Simulated requests per second. */
  readonly rate: number;
  readonly onProgress: (text: string) => void;
}

export interface LeaseFigures {
  /** Microseconds of CPU to reserve from two buckets and settle. */
  readonly micros: Figure;
  readonly rate: number;
  /** Lease calls in each simulated second. */
  readonly callsPerSecond: Figure;
  readonly load: string;
}

/**
 * Measures what budgets cost a proxy: the CPU to reserve and settle for a request, in process; and how often the proxy
 * asks for leases at a high rate on one key far from its limits, with a simulated clock and a simulated control plane
 * that grants by the rules of docs/budgets.md.
 */
export async function measureLeases({ rounds, rate, onProgress }: LeaseOptions): Promise<LeaseFigures> {
  const micros: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    onProgress(`round ${round} of ${rounds}${round === 0 ? ': warming up' : ''}`);
    const measured = await measureRound();
    if (round > 0) micros.push(measured);
  }
  onProgress(`${SIMULATED_SECONDS} s at ${rate} requests/s`);
  const calls = await simulate(rate);
  return { micros: figure(micros), rate, callsPerSecond: figure(calls), load: loadLine() };
}

export function describeLeases({ micros, rate, callsPerSecond, load }: LeaseFigures): string {
  return [
    `median (min–max); ${load}`,
    `reserve from ${POLICIES.length} buckets and settle: ${formatFigure(micros, 2)} µs of CPU, at most ${MAX_MICROS}`,
    `lease calls per second at ${rate} requests/s on one key, simulated until 90 % of the limit was spent: ${formatFigure(callsPerSecond, 0)}, at most ${MAX_CALLS}`,
    'every request found headroom without waiting',
  ].join('\n');
}

async function measureRound(): Promise<number> {
  const simulation = newSimulation(AMPLE_LIMIT);
  const book = new LeaseBook(simulation.deps);
  const policies = POLICIES.map(budgeted);
  await takeFirstLease(book, policies, simulation);
  const before = process.cpuUsage();
  for (let at = 0; at < REQUESTS_PER_ROUND; at += AT_ONCE) {
    // A busy proxy has about this many requests in flight.
    const reservations = Array.from({ length: AT_ONCE }, () => book.tryReserve(policies, COST));
    for (const reservation of reservations) {
      if (!reservation) throw new Error('a request found no headroom');
      book.settle(reservation, COST - 1n);
    }
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / REQUESTS_PER_ROUND;
}

/** Returns the number of lease calls in each second. */
async function simulate(rate: number): Promise<number[]> {
  const simulation = newSimulation(BigInt(rate * LIMIT_SECONDS) * COST);
  const book = new LeaseBook(simulation.deps);
  const policies = POLICIES.map(budgeted);
  await takeFirstLease(book, policies, simulation);
  const inFlight: {
    readonly endsAtMs: number;
    readonly reservation: NonNullable<ReturnType<LeaseBook['tryReserve']>>;
  }[] = [];
  const calls: number[] = [];
  let sent = 0;
  let ended = 0;
  for (let second = 0; second < SIMULATED_SECONDS; second++) {
    const before = simulation.calls;
    for (let ms = 0; ms < 1_000; ms++) {
      simulation.nowMs++;
      for (; sent < (simulation.nowMs / 1_000) * rate; sent++) {
        const reservation = book.tryReserve(policies, COST);
        if (!reservation) throw new Error(`request ${sent} of second ${second} found no headroom`);
        inFlight.push({ endsAtMs: simulation.nowMs + REQUEST_MS, reservation });
      }
      for (
        let first = inFlight[ended];
        first && first.endsAtMs <= simulation.nowMs;
        first = inFlight[ended]
      ) {
        book.settle(first.reservation, COST - 1n);
        ended++;
      }
      await simulation.answerDue();
    }
    book.everySecond();
    calls.push(simulation.calls - before);
  }
  return calls;
}

/** Sends the first request of a key, which waits for the first grant. */
async function takeFirstLease(
  book: LeaseBook,
  policies: readonly BudgetedPolicy[],
  simulation: Simulation,
): Promise<void> {
  const first = book.reserve(policies, COST, { showsParentFigures: false });
  await Promise.resolve();
  simulation.nowMs += CALL_MS;
  await simulation.answerDue();
  const reservation = await first;
  if (!reservation) throw new Error('the first request found no headroom');
  book.settle(reservation, COST);
}

function budgeted(policyId: string): BudgetedPolicy {
  const bucket = create(BucketRefSchema, {
    policyId,
    counterVersion: 1,
    subject: 'policy',
    windowStartMs: 0n,
  });
  return {
    bucket,
    bucketKey: bucketKey(bucket),
    enforcement: 'enforce',
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
  };
}

interface Simulation {
  nowMs: number;
  calls: number;
  readonly deps: LeaseBookDeps;
  /** Answers the calls that are due. */
  answerDue(): Promise<void>;
}

/** Large enough that no measured round needs a second slice. */
const AMPLE_LIMIT = COST * 10_000_000_000n;
const SLICE_SECONDS = 120n;

/** A control plane with one proxy. No usage reaches its ledger, so grants stay reserved. */
function newSimulation(limit: bigint): Simulation {
  const granted = new Map<string, bigint>();
  let pending: { readonly atMs: number; readonly answer: () => void }[] = [];
  const grant = (key: string, minimum: bigint, burn: bigint | undefined): bigint => {
    const before = granted.get(key) ?? 0n;
    const headroom = limit - before;
    const share = burn === undefined ? headroom / 8n : min(headroom / 2n, burn * SLICE_SECONDS);
    const slice = minimum === 0n ? 0n : share > minimum ? share : minimum;
    granted.set(key, before + slice);
    return before + slice;
  };
  const simulation: Simulation = {
    nowMs: 0,
    calls: 0,
    deps: {
      producerId: 'producer',
      epoch: 'epoch',
      nowMs: () => simulation.nowMs,
      clockMs: () => simulation.nowMs,
      silenceMs: () => 0,
      isLive: () => true,
      onShadowRefusal: () => {},
      call: (request) => {
        simulation.calls++;
        const budgets = (request.budgets ?? []).map((call) => ({
          seq: call.seq ?? 0n,
          grantedNanoUsd: grant(
            call.bucket?.policyId ?? '',
            call.minimumNanoUsd ?? 0n,
            call.burnNanoUsdPerSecond,
          ),
          spentNanoUsd: 0n,
          leasedNanoUsd: granted.get(call.bucket?.policyId ?? '') ?? 0n,
          limitNanoUsd: limit,
          outcome: BudgetLease_Outcome.GRANTED,
        }));
        const response = create(LeaseResponseSchema, { budgets });
        return new Promise<LeaseResponse>((resolve) => {
          pending.push({ atMs: simulation.nowMs + CALL_MS, answer: () => resolve(response) });
        });
      },
    },
    async answerDue() {
      if (pending.length === 0) return await Promise.resolve();
      const due = pending.filter(({ atMs }) => atMs <= simulation.nowMs);
      pending = pending.filter(({ atMs }) => atMs > simulation.nowMs);
      for (const { answer } of due) answer();
      // Let the code that awaits the responses run.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
  return simulation;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
