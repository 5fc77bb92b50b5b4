/** Decayed sums of a workload type at a model. */
export interface Stratum {
  readonly workloadType: string;
  readonly model: string;
  /** Attempts that are evidence of the model. */
  readonly requests: number;
  readonly successes: number;
  /** The sum over the successes, from dispatch to the end. */
  readonly latencyMs: number;
  /** The sum over the `timed`, from dispatch to the first byte of the response. */
  readonly timeToFirstTokenMs: number;
  readonly timed: number;
  /** The sum over all requests. For statistics only, never for money. */
  readonly costNanoUsd: number;
  /** The sum of the feedback, each from 0 to 1. */
  readonly scoreSum: number;
  readonly scores: number;
  /** The sums are decayed up to this time. */
  readonly atMs: number;
}

export type StratumSums = Omit<Stratum, 'workloadType' | 'model' | 'atMs'>;

/**
 * Evidence of six hours ago counts half: vendors slow down and recover with the time of day, and with few requests, nothing
 * else ages it.
 */
export const HALF_LIFE_MS = 6 * 3_600_000;

/**
 * Evidence of 300 requests ago counts half, counting the requests of the workload type at all models: a busy workload learns
 * of a change in as many requests as a quiet one. So about 400 requests count, enough to distinguish models that differ by a
 * few percent; and the evidence of an unused model decays, so that it is tried again.
 */
export const HALF_LIFE_REQUESTS = 300;

/** The age of evidence, in half-lives. */
export function halfLives(elapsedMs: number, requests: number): number {
  return Math.max(0, elapsedMs) / HALF_LIFE_MS + requests / HALF_LIFE_REQUESTS;
}

/** Decays a stratum to a later time, and by the requests of its workload type at any model since. */
export function decayed(stratum: Stratum, atMs: number, requestsSince = 0): Stratum {
  const factor = 0.5 ** halfLives(atMs - stratum.atMs, requestsSince);
  return { ...stratum, ...scaled(stratum, factor), atMs: Math.max(atMs, stratum.atMs) };
}

/** Adds two strata, decayed to the later time of both. */
export function merged(stratum: Stratum, other: Stratum): Stratum {
  const atMs = Math.max(stratum.atMs, other.atMs);
  return { ...decayed(stratum, atMs), ...added(decayed(stratum, atMs), decayed(other, atMs)) };
}

/** A stratum without evidence. */
export function emptyStratum(workloadType: string, model: string, atMs: number): Stratum {
  return { workloadType, model, ...NO_SUMS, atMs };
}

export const NO_SUMS: StratumSums = {
  requests: 0,
  successes: 0,
  latencyMs: 0,
  timeToFirstTokenMs: 0,
  timed: 0,
  costNanoUsd: 0,
  scoreSum: 0,
  scores: 0,
};

export function added(sums: StratumSums, more: StratumSums): StratumSums {
  return {
    requests: sums.requests + more.requests,
    successes: sums.successes + more.successes,
    latencyMs: sums.latencyMs + more.latencyMs,
    timeToFirstTokenMs: sums.timeToFirstTokenMs + more.timeToFirstTokenMs,
    timed: sums.timed + more.timed,
    costNanoUsd: sums.costNanoUsd + more.costNanoUsd,
    scoreSum: sums.scoreSum + more.scoreSum,
    scores: sums.scores + more.scores,
  };
}

function scaled(sums: StratumSums, factor: number): StratumSums {
  return {
    requests: sums.requests * factor,
    successes: sums.successes * factor,
    latencyMs: sums.latencyMs * factor,
    timeToFirstTokenMs: sums.timeToFirstTokenMs * factor,
    timed: sums.timed * factor,
    costNanoUsd: sums.costNanoUsd * factor,
    scoreSum: sums.scoreSum * factor,
    scores: sums.scores * factor,
  };
}

/** Counts below this are too old for a mean. */
const LEAST_COUNT = 0.01;

/** The share of requests that succeeded. */
export function successRate(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.successes, stratum.requests);
}

/** Of successful attempts. */
export function meanLatencyMs(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.latencyMs, stratum.successes);
}

export function meanTimeToFirstTokenMs(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.timeToFirstTokenMs, stratum.timed);
}

/** The cost per success, including the cost of failed attempts. */
export function meanCostNanoUsd(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.costNanoUsd, stratum.successes);
}

/** Of the feedback, from 0 to 1. */
export function meanScore(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.scoreSum, stratum.scores);
}

function mean(sum: number, count: number): number | undefined {
  return count < LEAST_COUNT ? undefined : sum / count;
}
