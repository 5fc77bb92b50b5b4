import { create } from '@bufbuild/protobuf';
import {
  BucketRefSchema,
  BudgetLease_Outcome,
  type LeaseResponse,
  LeaseResponseSchema,
} from '@weighbridge/contracts';
import {
  type BudgetedPolicy,
  bucketKey,
  LeaseBook,
  type LeaseBookDeps,
} from '@weighbridge/data-plane/benchmarks';
import { type Figure, figure, formatFigure } from './figures.ts';
import { loadLine } from './machine.ts';

const COST = 1_000_000n;
/** A policy and its parent, as most keys have. */
const POLICIES = ['policy_team', 'policy_department'];
const PAIRS_PER_ROUND = 200_000;
const AT_ONCE = 64;
const MOST_MICROS = 3;
/** How long a simulated request takes, in milliseconds. */
const REQUEST_MS = 300;
const CALL_MS = 5;
/** For how long the simulated limit suffices, and how much of that is simulated: its last tenth is near the limit. */
const LIMIT_SECONDS = 100;
const SIMULATED_SECONDS = 90;
const MOST_CALLS = 5;

export interface LeaseOptions {
  readonly rounds: number;
  /** Simulated requests a second. */
  readonly rate: number;
  readonly onProgress: (text: string) => void;
}

export interface LeaseFigures {
  /** Microseconds of CPU to reserve from two buckets and settle. */
  readonly micros: Figure;
  readonly rate: number;
  /** Simulated calls of each second. */
  readonly callsPerSecond: Figure;
  readonly load: string;
}

/**
 * What budgets cost a proxy on the way of a request: to reserve and to settle, in process; and how often it asks its control
 * plane at a high rate on one key that is far from its limits, with a clock of our own and a control plane that grants by
 * the rules of docs/budgets.md.
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
    `reserve from ${POLICIES.length} buckets and settle: ${formatFigure(micros, 2)} µs of CPU, at most ${MOST_MICROS}`,
    `lease calls each second at ${rate} requests/s on one key, simulated until 90 % of a limit were spent: ${formatFigure(callsPerSecond, 0)}, at most ${MOST_CALLS}`,
    'every request found room at once',
  ].join('\n');
}

async function measureRound(): Promise<number> {
  const world = newWorld(PLENTY);
  const book = new LeaseBook(world.deps);
  const policies = POLICIES.map(budgeted);
  await fill(book, policies, world);
  const before = process.cpuUsage();
  for (let at = 0; at < PAIRS_PER_ROUND; at += AT_ONCE) {
    // As many are under way at once as a busy proxy has.
    const held = Array.from({ length: AT_ONCE }, () => book.tryReserve(policies, COST));
    for (const reservation of held) {
      if (!reservation) throw new Error('a request found no room');
      book.settle(reservation, COST - 1n);
    }
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / PAIRS_PER_ROUND;
}

/** The calls of each second. */
async function simulate(rate: number): Promise<number[]> {
  const world = newWorld(BigInt(rate * LIMIT_SECONDS) * COST);
  const book = new LeaseBook(world.deps);
  const policies = POLICIES.map(budgeted);
  await fill(book, policies, world);
  const underWay: {
    readonly endsAtMs: number;
    readonly held: NonNullable<ReturnType<LeaseBook['tryReserve']>>;
  }[] = [];
  const calls: number[] = [];
  let sent = 0;
  let ended = 0;
  for (let second = 0; second < SIMULATED_SECONDS; second++) {
    const before = world.calls;
    for (let ms = 0; ms < 1_000; ms++) {
      world.nowMs++;
      for (; sent < (world.nowMs / 1_000) * rate; sent++) {
        const held = book.tryReserve(policies, COST);
        if (!held) throw new Error(`request ${sent} of second ${second} found no room`);
        underWay.push({ endsAtMs: world.nowMs + REQUEST_MS, held });
      }
      for (let first = underWay[ended]; first && first.endsAtMs <= world.nowMs; first = underWay[ended]) {
        book.settle(first.held, COST - 1n);
        ended++;
      }
      await world.answerDue();
    }
    book.everySecond();
    calls.push(world.calls - before);
  }
  return calls;
}

/** The first request of a key waits for its first grant. */
async function fill(book: LeaseBook, policies: readonly BudgetedPolicy[], world: World): Promise<void> {
  const first = book.reserve(policies, COST, false);
  await Promise.resolve();
  world.nowMs += CALL_MS;
  await world.answerDue();
  const held = await first;
  if (!held) throw new Error('the first request found no room');
  book.settle(held, COST);
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

interface World {
  nowMs: number;
  calls: number;
  readonly deps: LeaseBookDeps;
  /** Answers the calls whose time has come. */
  answerDue(): Promise<void>;
}

/** Of requests: no measured round needs a second slice. */
const PLENTY = COST * 10_000_000_000n;
const SLICE_SECONDS = 120n;

/** A control plane with one proxy; nothing reaches its ledger, so that what is granted stays held. */
function newWorld(limit: bigint): World {
  const granted = new Map<string, bigint>();
  let due: { readonly atMs: number; readonly answer: () => void }[] = [];
  const grant = (key: string, minimum: bigint, burn: bigint | undefined): bigint => {
    const held = granted.get(key) ?? 0n;
    const room = limit - held;
    const share = burn === undefined ? room / 8n : min(room / 2n, burn * SLICE_SECONDS);
    const slice = minimum === 0n ? 0n : share > minimum ? share : minimum;
    granted.set(key, held + slice);
    return held + slice;
  };
  const world: World = {
    nowMs: 0,
    calls: 0,
    deps: {
      producerId: 'producer',
      epoch: 'epoch',
      nowMs: () => world.nowMs,
      clockMs: () => world.nowMs,
      silenceMs: () => 0,
      onShadowRefusal: () => {},
      call: (request) => {
        world.calls++;
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
          due.push({ atMs: world.nowMs + CALL_MS, answer: () => resolve(response) });
        });
      },
    },
    async answerDue() {
      if (due.length === 0) return await Promise.resolve();
      const now = due.filter(({ atMs }) => atMs <= world.nowMs);
      due = due.filter(({ atMs }) => atMs > world.nowMs);
      for (const { answer } of now) answer();
      // What hangs on the answers goes on.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
  return world;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
