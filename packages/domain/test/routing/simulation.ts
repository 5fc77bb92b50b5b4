import { type Arm, adaptiveOrder, utilityOf } from '../../src/routing/adaptive.ts';
import {
  added,
  decayed,
  emptyStratum,
  NO_SUMS,
  type Stratum,
  type StratumSums,
} from '../../src/routing/stratum.ts';

/** The true behaviour of a model at a time. */
export interface Truth {
  readonly success: number;
  readonly quality: number;
  readonly latencyMs: number;
  readonly timeToFirstTokenMs: number;
  readonly costNanoUsd: number;
}

/** The true behaviour of the models at the nth request. */
export type World = (request: number) => ReadonlyMap<string, Truth>;

export interface Run {
  /** The model of each request. */
  readonly chosen: readonly string[];
  /** The utility lost by not choosing the best model each time. */
  readonly regret: number;
  /** The utility that a uniform random choice would have lost. */
  readonly uniformRegret: number;
}

export interface RunOptions {
  readonly requests: number;
  readonly perSecond: number;
  readonly random: () => number;
  /** The share of responses with feedback. */
  readonly scored: number;
  readonly order: (arms: readonly Arm[], random: () => number) => readonly { readonly model: string }[];
  readonly decay: typeof decayed;
}

const START_MS = Date.UTC(2026, 0, 1);
const SCORED = 0.3;

/**
 * Sends requests of one workload type to models like a proxy: the order is drawn from the strata of a second ago; results
 * are added once a second, and earlier evidence decays by the time and by the requests of all models.
 */
export function simulate(world: World, options: Partial<RunOptions> & Pick<RunOptions, 'random'>): Run {
  const { requests, perSecond, random, scored, order, decay } = {
    requests: 5_000,
    perSecond: 10,
    scored: SCORED,
    order: adaptiveOrder,
    decay: decayed,
    ...options,
  };
  const models = [...world(0).keys()];
  let told = new Map<string, Stratum>();
  let ledger = new Map<string, Stratum>();
  let news = new Map<string, StratumSums>();
  const chosen: string[] = [];
  let regret = 0;
  let uniformRegret = 0;
  for (let begun = 0; begun < requests; begun += perSecond) {
    told = ledger;
    ledger = recorded(ledger, news, START_MS + (begun / perSecond) * 1_000, decay);
    news = new Map();
    const arms = models.map((model) => ({ model, stratum: told.get(model) }));
    const truths = world(begun);
    const utilities = utilitiesOf(truths);
    const best = Math.max(...utilities.values());
    uniformRegret += perSecond * (best - mean([...utilities.values()]));
    for (let n = 0; n < perSecond; n++) {
      const model = order(arms, random)[0]?.model ?? '';
      const truth = truths.get(model);
      if (!truth) throw new Error(`there is no model ${model}`);
      chosen.push(model);
      regret += best - (utilities.get(model) ?? 0);
      news.set(model, added(news.get(model) ?? NO_SUMS, answer(truth, random, scored)));
    }
  }
  return { chosen, regret, uniformRegret };
}

/** Like metering. */
function recorded(
  ledger: ReadonlyMap<string, Stratum>,
  news: ReadonlyMap<string, StratumSums>,
  atMs: number,
  decay: typeof decayed,
): Map<string, Stratum> {
  const count = [...news.values()].reduce((sum, { requests }) => sum + requests, 0);
  const all = new Set([...ledger.keys(), ...news.keys()]);
  return new Map(
    [...all].map((model) => {
      const before = decay(ledger.get(model) ?? emptyStratum('', model, atMs), atMs, count);
      return [model, { ...before, ...added(before, news.get(model) ?? NO_SUMS) }];
    }),
  );
}

/** The sums of one request: times and scores scatter around the model's true behaviour. */
function answer(truth: Truth, random: () => number, scored: number): StratumSums {
  if (random() >= truth.success) return { ...NO_SUMS, requests: 1 };
  const scatter = () => 0.5 + random();
  const isScored = random() < scored;
  return {
    requests: 1,
    successes: 1,
    latencyMs: truth.latencyMs * scatter(),
    timeToFirstTokenMs: truth.timeToFirstTokenMs * scatter(),
    timed: 1,
    costNanoUsd: truth.costNanoUsd * scatter(),
    scores: isScored ? 1 : 0,
    scoreSum: isScored && random() < truth.quality ? 1 : 0,
  };
}

function utilitiesOf(truths: ReadonlyMap<string, Truth>): Map<string, number> {
  const all = [...truths.values()];
  const best = (of: (truth: Truth) => number) => Math.min(...all.map(of));
  const [latency, first, cost] = [
    best(({ latencyMs }) => latencyMs),
    best(({ timeToFirstTokenMs }) => timeToFirstTokenMs),
    best(({ costNanoUsd }) => costNanoUsd),
  ];
  return new Map(
    [...truths].map(([model, truth]) => {
      const speed = (latency / truth.latencyMs + first / truth.timeToFirstTokenMs) / 2;
      return [model, utilityOf(truth.success, truth.quality, speed, cost / truth.costNanoUsd)];
    }),
  );
}

/**
 * Models whose quality, reliability, speed and price drift independently, each around its own level: the best model changes
 * over time.
 */
export function driftingWorld(random: () => number, models = ['a', 'b', 'c', 'd']): World {
  const between = (low: number, high: number) => low + (high - low) * random();
  const drift = (low: number, high: number, swing: number) => {
    const [level, period, phase] = [between(low, high), between(6_000, 18_000), between(0, 2 * Math.PI)];
    return (n: number) => level + swing * Math.sin((2 * Math.PI * n) / period + phase);
  };
  const each = models.map((model) => {
    const [success, quality] = [drift(0.75, 0.95, 0.1), drift(0.3, 0.8, 0.2)];
    const [latency, first] = [drift(0, 2, 0.5), drift(0, 2, 0.5)];
    const [cost, cutAt] = [between(0, 2.5), between(500, 4_500)];
    return (n: number): [string, Truth] => [
      model,
      {
        success: clamp(success(n)),
        quality: clamp(quality(n)),
        latencyMs: 1_000 * Math.exp(latency(n)),
        timeToFirstTokenMs: 150 * Math.exp(first(n)),
        // A price changes in steps.
        costNanoUsd: 500_000 * Math.exp(n < cutAt ? cost : 2.5 - cost),
      },
    ];
  });
  return (n) => new Map(each.map((at) => at(n)));
}

function clamp(share: number): number {
  return Math.min(0.99, Math.max(0.01, share));
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return (
    ((sorted[Math.floor((sorted.length - 1) / 2)] ?? 0) + (sorted[Math.ceil((sorted.length - 1) / 2)] ?? 0)) /
    2
  );
}
