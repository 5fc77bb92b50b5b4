import { sampleBeta, sampleNormal } from './sampling.ts';
import {
  meanCostNanoUsd,
  meanLatencyMs,
  meanScore,
  meanTimeToFirstTokenMs,
  type Stratum,
  successRate,
} from './stratum.ts';

/** A model that may be chosen, with its evidence for the request's workload type. */
export interface Arm {
  readonly model: string;
  readonly stratum: Stratum | undefined;
}

export interface Sampled {
  readonly model: string;
  /** Its sampled utility, from 0 to 1. */
  readonly sampled: number;
  readonly why: string;
}

/** The weights of a successful response's utility. They add up to 1. */
export const UTILITY_WEIGHTS = { quality: 0.6, speed: 0.2, price: 0.2 } as const;

/** The share of requests that go to a random model, so that no model is excluded forever. */
export const EXPLORATION_FLOOR = 0.02;

const EXPLORED = `explored at random, like ${EXPLORATION_FLOOR * 100} % of requests`;

/** Priors worth two requests per model. They are optimistic, so that a new model is tried. */
const SUCCESS_PRIOR = { good: 1.8, bad: 0.2 };
const SCORE_PRIOR = { good: 1.2, bad: 0.8 };
/**
 * How many times an observation counts in a draw. Decay already keeps the distributions wide: with a factor of 1, worse
 * models would be tried more often than is worth it.
 */
const CONFIDENCE = 4;
/** A prior worth one measurement per model, at the mean of the others. */
const MEASURE_PRIOR = 1;
/** The standard deviation of the logarithms of single measurements. */
const MEASURE_SPREAD = 0.6;

/** Thompson sampling with a minimal share of exploration. Best first. */
export function adaptiveOrder(arms: readonly Arm[], random: () => number): readonly Sampled[] {
  const utilities = sampleUtilities(arms, random);
  const explored = random() < EXPLORATION_FLOOR ? Math.floor(random() * arms.length) : undefined;
  return arms
    .map(({ model, stratum }, at) => ({ at, model, sampled: utilities[at] ?? 0, stratum }))
    .sort((a, b) => Number(b.at === explored) - Number(a.at === explored) || b.sampled - a.sampled)
    .map(({ at, model, sampled, stratum }) => ({
      model,
      sampled,
      // Formatted on access: only explanations need it, not the hot path.
      get why() {
        return at === explored ? EXPLORED : `drew ${sampled.toFixed(3)} from ${describeStratum(stratum)}`;
      },
    }));
}

/** The utility of a model, from 0 to 1. Speed and price are relative to the best model, which has 1. */
export function utilityOf(success: number, quality: number, speed: number, price: number): number {
  const { quality: q, speed: s, price: p } = UTILITY_WEIGHTS;
  return success * (q * quality + s * speed + p * price);
}

function sampleUtilities(arms: readonly Arm[], random: () => number): number[] {
  const speeds = meanOfEach(
    relativeToBest(sampleMeasures(arms, meanLatencyMs, (stratum) => stratum.successes, random)),
    relativeToBest(sampleMeasures(arms, meanTimeToFirstTokenMs, (stratum) => stratum.timed, random)),
  );
  const prices = relativeToBest(
    sampleMeasures(arms, meanCostNanoUsd, (stratum) => stratum.successes, random),
  );
  // Without any feedback, a draw of the quality would only add noise.
  const judged = arms.some(({ stratum }) => meanScore(stratum) !== undefined);
  return arms.map(({ stratum }, at) => {
    const success = drawShare(SUCCESS_PRIOR, stratum?.successes ?? 0, stratum?.requests ?? 0, random);
    const quality = judged
      ? drawShare(SCORE_PRIOR, stratum?.scoreSum ?? 0, stratum?.scores ?? 0, random)
      : SCORE_PRIOR.good / (SCORE_PRIOR.good + SCORE_PRIOR.bad);
    return utilityOf(success, quality, speeds[at] ?? 1, prices?.[at] ?? 1);
  });
}

function drawShare(
  prior: { readonly good: number; readonly bad: number },
  good: number,
  all: number,
  random: () => number,
): number {
  const bad = Math.max(0, all - good);
  return sampleBeta(prior.good + CONFIDENCE * good, prior.bad + CONFIDENCE * bad, random);
}

/** Draws each arm's mean from its distribution; undefined if no arm has measurements. */
function sampleMeasures(
  arms: readonly Arm[],
  meanOf: (stratum: Stratum | undefined) => number | undefined,
  countOf: (stratum: Stratum) => number,
  random: () => number,
): readonly number[] | undefined {
  // The logarithm of 0 is infinite, so a free model counts as the smallest unit.
  const logs = arms.map(({ stratum }) => {
    const mean = meanOf(stratum);
    return mean === undefined ? undefined : Math.log(Math.max(mean, 1));
  });
  const known = logs.filter((log) => log !== undefined);
  if (known.length === 0) return undefined;
  const common = known.reduce((sum, log) => sum + log, 0) / known.length;
  return arms.map(({ stratum }, at) => {
    const log = logs[at];
    const count = stratum && log !== undefined ? CONFIDENCE * countOf(stratum) : 0;
    const center = ((log ?? common) * count + common * MEASURE_PRIOR) / (count + MEASURE_PRIOR);
    const spread = MEASURE_SPREAD / Math.sqrt(count + MEASURE_PRIOR);
    return Math.exp(center + spread * sampleNormal(random));
  });
}

function relativeToBest(measures: readonly number[] | undefined): readonly number[] | undefined {
  if (!measures) return undefined;
  const best = Math.min(...measures);
  return measures.map((measure) => best / measure);
}

function meanOfEach(
  some: readonly number[] | undefined,
  others: readonly number[] | undefined,
): readonly number[] {
  if (!some || !others) return some ?? others ?? [];
  return some.map((value, at) => (value + (others[at] ?? value)) / 2);
}

/** The evidence of a model as text. */
export function describeStratum(stratum: Stratum | undefined): string {
  const success = successRate(stratum);
  if (!stratum || success === undefined) return 'no evidence yet';
  const latency = meanLatencyMs(stratum);
  const firstToken = meanTimeToFirstTokenMs(stratum);
  const cost = meanCostNanoUsd(stratum);
  const score = meanScore(stratum);
  return [
    `${(success * 100).toFixed(1)} % of ${stratum.requests.toFixed(1)} requests succeeded`,
    ...(latency === undefined ? [] : [`${latency.toFixed(0)} ms per response`]),
    ...(firstToken === undefined ? [] : [`${firstToken.toFixed(0)} ms to the first token`]),
    ...(cost === undefined ? [] : [`${(cost / 1_000).toFixed(1)} micro-USD per response`]),
    ...(score === undefined ? [] : [`scored ${score.toFixed(2)}`]),
  ].join(', ');
}
