import type { TokenPrices } from '../modelPrice.ts';
import { decimalUsd } from '../money.ts';
import { adaptiveOrder } from './adaptive.ts';
import { type Draw, drawnByWeight } from './draw.ts';
import type { RoutingConstraints, RoutingProfile, Strategy } from './profile.ts';
import { meanTimeToFirstTokenMs, type Stratum } from './stratum.ts';

/** A model that could serve a request, with the data that ranks it. */
export interface Candidate {
  readonly model: string;
  readonly weight: number;
  readonly contextWindow: number;
  /** The price at the cheapest connector that may serve it. */
  readonly price: TokenPrices;
  /** Of 100; undefined if none is published. */
  readonly score: number | undefined;
  readonly capabilities: readonly string[];
  /** The evidence for the request's workload type. */
  readonly stratum: Stratum | undefined;
  /** The evidence for all workload types together. */
  readonly overall?: Stratum | undefined;
}

/** Looks up the evidence of a model for a workload type, or for all of them; undefined if there is none. */
export type Strata = (workloadType: string, model: string) => Stratum | undefined;

/** Stands for all workload types together. It is no valid hash. */
export const ALL_WORKLOAD_TYPES = '*';

/** The evidence of a candidate. */
export function observedOf(
  strata: Strata,
  workloadType: string,
  model: string,
): Pick<Candidate, 'stratum' | 'overall'> {
  return { stratum: strata(workloadType, model), overall: strata(ALL_WORKLOAD_TYPES, model) };
}

/** A model, and the reason for its place, in plain English. */
export interface Judged {
  readonly model: string;
  readonly why: string;
}

export interface Ranking {
  /** Best first. */
  readonly ranked: readonly Judged[];
  readonly excluded: readonly Judged[];
}

/** The share of requests under `fastest` that measure an unmeasured model, while there is one. */
export const MEASURING_SHARE = 0.1;
/** Observations that have decayed below this are ignored: the model may have changed since. */
const LEAST_TIMED = 0.5;
/** Prompts are usually longer than responses: prices are compared for this many input tokens per output token. */
const INPUT_PER_OUTPUT = 3n;

/** Orders the models of a profile by its strategy, and excludes those that do not meet its constraints. */
export function rank(
  { strategy, constraints }: Pick<RoutingProfile, 'strategy' | 'constraints'>,
  candidates: readonly Candidate[],
  random: Draw,
): Ranking {
  const excluded: Judged[] = [];
  const left: Candidate[] = [];
  for (const candidate of candidates) {
    const why = shortcoming(constraints, candidate);
    if (why === undefined) left.push(candidate);
    else excluded.push({ model: candidate.model, why });
  }
  return { ranked: ORDERS[strategy](left, random), excluded };
}

/** The price of a request with usual proportions, for comparison. */
export function blendedPrice({ input, output }: Pick<TokenPrices, 'input' | 'output'>): bigint {
  return INPUT_PER_OUTPUT * input + output;
}

/** Why prices are above a profile's maximum; undefined if they are not. */
export function overCeiling(
  { maxInputNanoUsd, maxOutputNanoUsd }: RoutingConstraints,
  { input, output }: Pick<TokenPrices, 'input' | 'output'>,
): string | undefined {
  if (maxInputNanoUsd !== undefined && input > maxInputNanoUsd) {
    return `a million input tokens cost ${decimalUsd(input)} USD, and at most ${decimalUsd(maxInputNanoUsd)} USD are allowed`;
  }
  if (maxOutputNanoUsd !== undefined && output > maxOutputNanoUsd) {
    return `a million output tokens cost ${decimalUsd(output)} USD, and at most ${decimalUsd(maxOutputNanoUsd)} USD are allowed`;
  }
  return undefined;
}

function shortcoming(constraints: RoutingConstraints, candidate: Candidate): string | undefined {
  const { contextWindow, minScore, capabilities = [] } = constraints;
  if (contextWindow !== undefined && candidate.contextWindow < contextWindow) {
    return `its context window has ${candidate.contextWindow} tokens, and at least ${contextWindow} are required`;
  }
  const tooDear = overCeiling(constraints, candidate.price);
  if (tooDear !== undefined) return tooDear;
  if (minScore !== undefined && (candidate.score ?? Number.NEGATIVE_INFINITY) < minScore) {
    const given =
      candidate.score === undefined ? 'it has no published score' : `its score is ${candidate.score}`;
    return `${given}, and at least ${minScore} is required`;
  }
  const lacking = capabilities.filter((capability) => !candidate.capabilities.includes(capability));
  if (lacking.length > 0) return `the catalog does not list its capability ${lacking.join(', ')}`;
  return undefined;
}

type Order = (candidates: readonly Candidate[], random: Draw) => readonly Judged[];

const ORDERS: Readonly<Record<Strategy, Order>> = {
  ordered: (candidates) =>
    candidates.map(({ model }, at) => ({ model, why: `number ${at + 1} in the profile's order` })),

  weighted: (candidates, random) => {
    const sum = candidates.reduce((total, { weight }) => total + weight, 0);
    return drawnByWeight(candidates, ({ model }) => random(model)).map(({ model, weight }) => ({
      model,
      why: `drawn by its weight, ${weight} of ${sum}`,
    }));
  },

  cheapest: (candidates) =>
    candidates
      .toSorted((a, b) => compare(blendedPrice(a.price), blendedPrice(b.price)))
      .map(({ model, price }) => ({
        model,
        why: `a million tokens cost ${decimalUsd(price.input)} USD of input and ${decimalUsd(price.output)} USD of output`,
      })),

  best_score: (candidates) =>
    candidates
      .toSorted(
        (a, b) =>
          compare(b.score ?? Number.NEGATIVE_INFINITY, a.score ?? Number.NEGATIVE_INFINITY) ||
          compare(blendedPrice(a.price), blendedPrice(b.price)),
      )
      .map(({ model, score }) => ({
        model,
        why: score === undefined ? 'it has no published score' : `its score is ${score}`,
      })),

  fastest,

  adaptive: (candidates, random) =>
    adaptiveOrder(candidates, random).map(({ model, why }) => ({ model, why })),
};

/**
 * By the mean time to the first token. Models without a recent measurement come last, so that requests do not wait for them;
 * but one request in ten tries one of them first, to measure it. Without any measurement, all take turns.
 */
function fastest(candidates: readonly Candidate[], random: Draw): readonly Judged[] {
  const timed = candidates.map((candidate) => ({
    model: candidate.model,
    time: timeToFirstToken(candidate),
  }));
  const known = timed.flatMap(({ model, time }) => (time ? [{ model, ...time }] : []));
  const unknown = timed.filter(({ time }) => !time).map(({ model }) => ({ model, weight: 1 }));
  const ranked = known
    .sort((a, b) => a.ms - b.ms)
    .map(({ model, ms, of }) => ({
      model,
      why: `${Math.round(ms)} ms to the first token on average, ${of}`,
    }));
  const isMeasuring = known.length === 0 || (unknown.length > 0 && random() < MEASURING_SHARE);
  const inTurn = isMeasuring ? drawnByWeight(unknown, ({ model }) => random(model)) : unknown;
  const unmeasured = inTurn.map(({ model }, at) => ({
    model,
    why:
      isMeasuring && at === 0 ? 'not measured recently: this request measures it' : 'not measured recently',
  }));
  const [measured, ...others] = unmeasured;
  return isMeasuring && measured ? [measured, ...ranked, ...others] : [...ranked, ...unmeasured];
}

function timeToFirstToken({ stratum, overall }: Candidate) {
  const own = meanOfEnough(stratum);
  if (own !== undefined) return { ms: own, of: 'for this workload type' };
  const all = meanOfEnough(overall);
  return all === undefined ? undefined : { ms: all, of: 'over all workload types' };
}

function meanOfEnough(stratum: Stratum | undefined): number | undefined {
  return stratum && stratum.timed >= LEAST_TIMED ? meanTimeToFirstTokenMs(stratum) : undefined;
}

function compare<T extends number | bigint>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
