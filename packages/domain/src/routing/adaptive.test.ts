import { describe, expect, it } from 'vitest';
import {
  driftingWorld,
  median,
  type Run,
  type RunOptions,
  simulate,
  type Truth,
  type World,
} from '../../test/routing/simulation.ts';
import { type Arm, adaptiveOrder, describeStratum, EXPLORATION_FLOOR } from './adaptive.ts';
import { seededRandom } from './sampling.ts';
import { emptyStratum, type Stratum } from './stratum.ts';

const SEEDS = Array.from({ length: 20 }, (_, n) => n + 1);

const model = (truth: Partial<Truth> = {}): Truth => ({
  success: 0.95,
  quality: 0.6,
  latencyMs: 2_000,
  timeToFirstTokenMs: 400,
  costNanoUsd: 1_000_000,
  ...truth,
});

const stratum = (name: string, sums: Partial<Stratum>): Stratum => ({
  ...emptyStratum('', name, 0),
  ...sums,
});

const answered = (name: string, requests: number, more: Partial<Stratum> = {}): Arm => ({
  model: name,
  stratum: stratum(name, {
    requests,
    successes: requests,
    latencyMs: requests * 1_000,
    timeToFirstTokenMs: requests * 200,
    timed: requests,
    costNanoUsd: requests * 1_000_000,
    ...more,
  }),
});

/** A constant draw: the apparently best model is chosen, without exploration. */
const greedy: RunOptions['order'] = (arms) => adaptiveOrder(arms, () => 0.5);

/** How often each model is first. */
function firsts(arms: readonly Arm[], draws: number): Map<string, number> {
  const random = seededRandom(7);
  const counts = new Map<string, number>();
  for (let n = 0; n < draws; n++) {
    const first = adaptiveOrder(arms, random)[0]?.model ?? '';
    counts.set(first, (counts.get(first) ?? 0) + 1);
  }
  return counts;
}

describe('in a simulation with drifting quality, latency and price', () => {
  const relativeRegret = (options: Partial<RunOptions> = {}) =>
    median(
      SEEDS.map((seed) => {
        const run = simulate(driftingWorld(seededRandom(seed)), {
          ...options,
          random: seededRandom(1_000 + seed),
        });
        return run.regret / run.uniformRegret;
      }),
    );

  it('has at most a fifth of the regret of a uniform choice', () => {
    expect(relativeRegret()).toBeLessThanOrEqual(0.2);
  });

  it('has more regret without decay', () => {
    expect(relativeRegret({ decay: (kept) => kept })).toBeGreaterThan(0.2);
  });
});

describe('a model that becomes the best', () => {
  const CHANGE = 2_500;
  const world: World = (n) =>
    new Map([
      ['steady', model()],
      ['late', model(n < CHANGE ? { quality: 0.2, latencyMs: 5_000 } : { quality: 0.95, latencyMs: 1_000 })],
      ['poor', model({ quality: 0.3 })],
    ]);
  /** After how many requests it gets more than half of them. */
  const foundAfter = ({ chosen }: Run) => {
    for (let n = CHANGE; n + 100 <= chosen.length; n++) {
      if (chosen.slice(n, n + 100).filter((name) => name === 'late').length > 50) return n + 100 - CHANGE;
    }
    return Number.POSITIVE_INFINITY;
  };
  const slowest = (options: Partial<RunOptions> = {}) =>
    Math.max(
      ...SEEDS.map((seed) =>
        foundAfter(simulate(world, { requests: 4_000, ...options, random: seededRandom(seed) })),
      ),
    );

  it('is found within 1,000 requests', () => {
    expect(slowest()).toBeLessThanOrEqual(1_000);
  });

  it('is found later, or never, without decay or exploration', () => {
    expect(slowest({ decay: (kept) => kept })).toBeGreaterThan(1_000);
    expect(slowest({ order: greedy })).toBeGreaterThan(1_000);
    expect(slowest({ order: greedy, decay: (kept) => kept })).toBe(Number.POSITIVE_INFINITY);
  });
});

it('sends two workload types with opposite best models to different models', () => {
  const random = seededRandom(3);
  const [good, bad] = [model({ quality: 0.9 }), model({ quality: 0.4 })];
  const last = ({ chosen }: Run) => chosen.slice(-500);
  const chat = last(
    simulate(
      () =>
        new Map([
          ['a', good],
          ['b', bad],
        ]),
      { random, requests: 2_000 },
    ),
  );
  const code = last(
    simulate(
      () =>
        new Map([
          ['a', bad],
          ['b', good],
        ]),
      { random, requests: 2_000 },
    ),
  );
  expect(chat.filter((name) => name === 'a').length).toBeGreaterThan(450);
  expect(code.filter((name) => name === 'b').length).toBeGreaterThan(450);
});

describe('the order', () => {
  it('has every arm once, and gives a clearly worse model only the exploration share', () => {
    const arms = [answered('good', 400), answered('bad', 400, { successes: 100 })];
    const draws = 5_000;
    const bad = firsts(arms, draws).get('bad') ?? 0;
    expect(bad / draws).toBeGreaterThan(EXPLORATION_FLOOR / 4);
    expect(bad / draws).toBeLessThan(EXPLORATION_FLOOR);
    const order = adaptiveOrder(arms, seededRandom(1));
    expect(new Set(order.map(({ model: name }) => name))).toEqual(new Set(['good', 'bad']));
  });

  it('tries a new model', () => {
    const arms = [answered('known', 400, { successes: 360 }), { model: 'new', stratum: undefined }];
    expect(firsts(arms, 1_000).get('new')).toBeGreaterThan(300);
  });

  it('prefers the cheaper, the faster and the better rated of two models', () => {
    for (const better of [
      { costNanoUsd: 400 * 500_000 },
      { latencyMs: 400 * 500, timeToFirstTokenMs: 400 * 100 },
      { scores: 100, scoreSum: 95 },
    ]) {
      const arms = [
        answered('plain', 400, { scores: 100, scoreSum: 50 }),
        answered('better', 400, { scores: 100, scoreSum: 50, ...better }),
      ];
      expect(firsts(arms, 1_000).get('better')).toBeGreaterThan(900);
    }
  });

  it('is deterministic for the same random numbers, and accepts any evidence', () => {
    const arms = [
      answered('a', 3),
      answered('b', 1e12),
      answered('c', 1e-12),
      { model: 'd', stratum: undefined },
    ];
    expect(adaptiveOrder(arms, seededRandom(5))).toEqual(adaptiveOrder(arms, seededRandom(5)));
    for (const { sampled } of adaptiveOrder(arms, seededRandom(6))) {
      expect(sampled).toBeGreaterThanOrEqual(0);
      expect(sampled).toBeLessThanOrEqual(1);
    }
    expect(adaptiveOrder([], seededRandom(1))).toEqual([]);
  });

  it('explains itself', () => {
    expect(describeStratum(undefined)).toBe('no evidence yet');
    const [only] = adaptiveOrder([answered('a', 10, { successes: 9, scores: 2, scoreSum: 1 })], () => 0.5);
    expect(only?.why).toContain('90.0 % of 10.0 requests succeeded');
    expect(only?.why).toContain('scored 0.50');
  });
});
