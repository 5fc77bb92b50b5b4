import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type RoutingConstraints, STRATEGIES, type Strategy } from './profile.ts';
import { blendedPrice, type Candidate, MEASURING_SHARE, rank } from './rank.ts';
import { seededRandom } from './sampling.ts';
import { emptyStratum, type Stratum } from './stratum.ts';

const rates = (input: bigint, output = input) => ({
  input,
  output,
  cacheRead: input,
  cacheWrite: input,
  cacheWrite1h: input,
});
const candidate = (model: string, fields: Partial<Candidate> = {}): Candidate => ({
  model,
  weight: 1,
  contextWindow: 1_000,
  price: rates(1_000n),
  score: undefined,
  capabilities: [],
  stratum: undefined,
  ...fields,
});
const timed = (model: string, ms: number, count = 10): Stratum => ({
  ...emptyStratum('chat', model, 0),
  timed: count,
  timeToFirstTokenMs: ms * count,
});
const order = (
  strategy: Strategy,
  candidates: readonly Candidate[],
  { constraints = {}, random = () => 0.5 }: { constraints?: RoutingConstraints; random?: () => number } = {},
) => rank({ strategy, constraints }, candidates, random).ranked.map(({ model }) => model);

describe('the order of models', () => {
  it('is the profile’s order under `ordered`', () => {
    expect(order('ordered', [candidate('b'), candidate('a'), candidate('c')])).toEqual(['b', 'a', 'c']);
  });

  it('begins with each model by its share of the weights under `weighted`', () => {
    const random = seededRandom(20_261_120);
    const candidates = [candidate('a', { weight: 6 }), candidate('b', { weight: 3 }), candidate('c')];
    const firsts = { a: 0, b: 0, c: 0 };
    for (let at = 0; at < 10_000; at++) {
      firsts[order('weighted', candidates, { random })[0] as keyof typeof firsts]++;
    }
    // Four standard deviations are less than 200.
    expect(Math.abs(firsts.a - 6_000)).toBeLessThan(200);
    expect(Math.abs(firsts.b - 3_000)).toBeLessThan(200);
    expect(Math.abs(firsts.c - 1_000)).toBeLessThan(200);
  });

  it('is by price under `cheapest`, to the nano, with three input tokens per output token', () => {
    const candidates = [
      candidate('dear output', { price: rates(1_000n, 9_001n) }),
      candidate('dear input', { price: rates(2_000n, 6_000n) }),
      candidate('a nano less', { price: rates(2_000n, 5_999n) }),
    ];
    expect(order('cheapest', candidates)).toEqual(['a nano less', 'dear input', 'dear output']);
    // Prices that are equal as floats.
    const large = 9_007_199_254_740_993n;
    expect(
      order('cheapest', [
        candidate('a', { price: rates(large) }),
        candidate('b', { price: rates(large - 1n) }),
      ]),
    ).toEqual(['b', 'a']);
  });

  it('is by score under `best_score`, the cheaper of equals first, unscored ones last', () => {
    const candidates = [
      candidate('unscored'),
      candidate('dear', { score: 90, price: rates(2_000n) }),
      candidate('worse', { score: 60 }),
      candidate('cheap', { score: 90 }),
    ];
    expect(order('best_score', candidates)).toEqual(['cheap', 'dear', 'worse', 'unscored']);
  });

  it('is drawn from the evidence under `adaptive`', () => {
    const known = (model: string, successes: number) => ({
      ...emptyStratum('chat', model, 0),
      requests: 1_000,
      successes,
    });
    const candidates = [
      candidate('fails', { stratum: known('fails', 10) }),
      candidate('serves', { stratum: known('serves', 1_000) }),
    ];
    const random = seededRandom(7);
    const firsts = Array.from({ length: 200 }, () => order('adaptive', candidates, { random })[0]);
    expect(firsts.filter((model) => model === 'serves').length).toBeGreaterThan(180);
  });
});

describe('under `fastest`', () => {
  const never = () => MEASURING_SHARE;
  const always = () => 0;

  it('the order is by the time to the first token, for the workload type if known, else for all', () => {
    const candidates = [
      candidate('slow', { stratum: timed('slow', 900) }),
      candidate('fast elsewhere', { overall: timed('fast elsewhere', 500) }),
      candidate('fast', { stratum: timed('fast', 200), overall: timed('fast', 5_000) }),
    ];
    const { ranked } = rank({ strategy: 'fastest', constraints: {} }, candidates, never);
    expect(ranked).toEqual([
      { model: 'fast', why: '200 ms to the first token on average, for this workload type' },
      { model: 'fast elsewhere', why: '500 ms to the first token on average, over all workload types' },
      { model: 'slow', why: '900 ms to the first token on average, for this workload type' },
    ]);
  });

  it('a tenth of the requests measure an unmeasured model, the others avoid it', () => {
    const candidates = [
      candidate('unknown'),
      candidate('known', { stratum: timed('known', 900) }),
      candidate('faded', { stratum: timed('faded', 1, 0.1) }),
    ];
    expect(order('fastest', candidates, { random: never })).toEqual(['known', 'unknown', 'faded']);
    const random = seededRandom(5);
    const firsts = Array.from({ length: 4_000 }, () => order('fastest', candidates, { random })[0]);
    const count = (model: string) => firsts.filter((first) => first === model).length;
    expect(Math.abs(count('known') - 3_600)).toBeLessThan(80);
    expect(Math.abs(count('unknown') - 200)).toBeLessThan(60);
    expect(count('known') + count('unknown') + count('faded')).toBe(4_000);
  });

  it('all models take turns while none is measured', () => {
    const candidates = ['a', 'b', 'c', 'd'].map((model) => candidate(model));
    const random = seededRandom(6);
    const firsts = Array.from({ length: 2_000 }, () => order('fastest', candidates, { random })[0]);
    for (const { model } of candidates) {
      expect(Math.abs(firsts.filter((first) => first === model).length - 500)).toBeLessThan(80);
    }
  });

  it('no model is measured at random once all are measured', () => {
    const candidates = [
      candidate('b', { stratum: timed('b', 2) }),
      candidate('a', { stratum: timed('a', 1) }),
    ];
    expect(order('fastest', candidates, { random: always })).toEqual(['a', 'b']);
  });
});

describe('a constraint', () => {
  const model = candidate('a', {
    contextWindow: 8_000,
    price: rates(2_500_000_000n, 10_000_000_001n),
    score: 70,
    capabilities: ['tools', 'vision'],
  });
  const whys = (constraints: RoutingConstraints, of = model) =>
    rank({ strategy: 'ordered', constraints }, [of], () => 0).excluded.map(({ why }) => why);

  it('excludes models that do not meet it, with the reason', () => {
    expect(whys({ contextWindow: 8_001 })).toEqual([
      'its context window has 8000 tokens, and at least 8001 are required',
    ]);
    expect(whys({ maxInputNanoUsd: 2_499_999_999n })).toEqual([
      'a million input tokens cost 2.5 USD, and at most 2.499999999 USD are allowed',
    ]);
    expect(whys({ maxOutputNanoUsd: 10_000_000_000n })).toEqual([
      'a million output tokens cost 10.000000001 USD, and at most 10 USD are allowed',
    ]);
    expect(whys({ minScore: 70.1 })).toEqual(['its score is 70, and at least 70.1 is required']);
    expect(whys({ minScore: 0 }, candidate('b'))).toEqual([
      'it has no published score, and at least 0 is required',
    ]);
    expect(whys({ capabilities: ['vision', 'audio'] })).toEqual([
      'the catalog does not list its capability audio',
    ]);
  });

  it('is met at its exact bound', () => {
    const constraints = {
      contextWindow: 8_000,
      maxInputNanoUsd: 2_500_000_000n,
      maxOutputNanoUsd: 10_000_000_001n,
      minScore: 70,
      capabilities: ['tools'],
    };
    expect(whys(constraints)).toEqual([]);
  });
});

describe('whatever the candidates', () => {
  const anyStratum = fc.option(
    fc.record({
      ms: fc.integer({ min: 1, max: 10_000 }),
      count: fc.double({ min: 0, max: 100, noNaN: true }),
    }),
    { nil: undefined },
  );
  const anyCandidate = fc
    .record({
      weight: fc.integer({ min: 1, max: 1_000_000 }),
      contextWindow: fc.integer({ min: 1, max: 2_000_000 }),
      input: fc.bigInt({ min: 0n, max: 10n ** 18n }),
      output: fc.bigInt({ min: 0n, max: 10n ** 18n }),
      score: fc.option(fc.double({ min: 0, max: 100, noNaN: true }), { nil: undefined }),
      capabilities: fc.subarray(['tools', 'vision', 'audio']),
      stratum: anyStratum,
    })
    .map(({ input, output, stratum, ...fields }) =>
      candidate('', {
        ...fields,
        price: rates(input, output),
        stratum: stratum && timed('', stratum.ms, stratum.count),
      }),
    );
  const anyCandidates = fc
    .array(anyCandidate, { maxLength: 8 })
    .map((all) => all.map((one, at) => ({ ...one, model: `mock/${at}` })));
  const anyConstraints = fc.record(
    {
      contextWindow: fc.integer({ min: 1, max: 2_000_000 }),
      maxInputNanoUsd: fc.bigInt({ min: 0n, max: 10n ** 18n }),
      maxOutputNanoUsd: fc.bigInt({ min: 0n, max: 10n ** 18n }),
      minScore: fc.double({ min: 0, max: 100, noNaN: true }),
      capabilities: fc.subarray(['tools', 'vision', 'audio']),
    },
    { requiredKeys: [] },
  );

  it('each is ranked or excluded, once, with a reason, and none is ranked that a constraint excludes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...STRATEGIES),
        anyCandidates,
        anyConstraints,
        fc.integer(),
        (strategy, candidates, constraints, seed) => {
          const { ranked, excluded } = rank({ strategy, constraints }, candidates, seededRandom(seed));
          const all = [...ranked, ...excluded];
          expect(all.map(({ model }) => model).sort()).toEqual(candidates.map(({ model }) => model).sort());
          expect(all.every(({ why }) => why.length > 0)).toBe(true);
          for (const { model } of ranked) {
            const { price, contextWindow, score, capabilities } = candidates.find(
              (one) => one.model === model,
            ) as Candidate;
            expect(contextWindow).toBeGreaterThanOrEqual(constraints.contextWindow ?? 0);
            expect(price.input <= (constraints.maxInputNanoUsd ?? price.input)).toBe(true);
            expect(price.output <= (constraints.maxOutputNanoUsd ?? price.output)).toBe(true);
            if (constraints.minScore !== undefined)
              expect(score).toBeGreaterThanOrEqual(constraints.minScore);
            expect(capabilities).toEqual(expect.arrayContaining(constraints.capabilities ?? []));
          }
        },
      ),
    );
  });

  it('`cheapest` never puts a more expensive model before a cheaper one', () => {
    fc.assert(
      fc.property(anyCandidates, (candidates) => {
        const prices = order('cheapest', candidates).map((model) =>
          blendedPrice((candidates.find((one) => one.model === model) as Candidate).price),
        );
        expect(prices.every((price, at) => at === 0 || (prices[at - 1] ?? price) <= price)).toBe(true);
      }),
    );
  });
});
