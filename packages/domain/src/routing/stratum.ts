/** Decayed sums of one workload type at one model. */
export interface Stratum {
  readonly workloadType: string;
  readonly model: string;
  /** Attempts that say something of the model. */
  readonly requests: number;
  readonly successes: number;
  /** Of the successes, from dispatch to the end. */
  readonly latencyMs: number;
  /** Of the `timed`, from dispatch to the first byte of the answer. */
  readonly timeToFirstTokenMs: number;
  readonly timed: number;
  /** Of all requests. For statistics only: never money. */
  readonly costNanoUsd: number;
  /** Of what callers said, each from 0 to 1. */
  readonly scoreSum: number;
  readonly scores: number;
  /** Up to when the sums are decayed. */
  readonly atMs: number;
}

/** What is added up. */
export type StratumSums = Omit<Stratum, 'workloadType' | 'model' | 'atMs'>;

/**
 * What is six hours old counts half: vendors slow down and recover with the time of day, and where requests are few,
 * nothing else ends what was once believed.
 */
export const HALF_LIFE_MS = 6 * 3_600_000;

/**
 * What lies 300 requests of the same workload type back counts half, at whichever model they were: a busy workload learns
 * of a change in as many requests as a quiet one. Some 400 requests are then what a belief rests on, enough to tell models
 * apart that differ by a few percent; and those of a model that is passed over fade, so that it is tried again.
 */
export const HALF_LIFE_REQUESTS = 300;

/** How far evidence ages, in half-lives. */
export function halfLives(elapsedMs: number, requests: number): number {
  return Math.max(0, elapsedMs) / HALF_LIFE_MS + requests / HALF_LIFE_REQUESTS;
}

/** The stratum as it counts after more time, and more requests of its workload type at any model. */
export function decayed(stratum: Stratum, atMs: number, requestsSince = 0): Stratum {
  const factor = 0.5 ** halfLives(atMs - stratum.atMs, requestsSince);
  return { ...stratum, ...scaled(stratum, factor), atMs: Math.max(atMs, stratum.atMs) };
}

/** Both together, as of the later of the two. */
export function merged(stratum: Stratum, other: Stratum): Stratum {
  const atMs = Math.max(stratum.atMs, other.atMs);
  return { ...decayed(stratum, atMs), ...added(decayed(stratum, atMs), decayed(other, atMs)) };
}

/** A stratum of which nothing is known. */
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

/** Less than this is the trace of something long ago, and no mean is told of it. */
const LEAST_COUNT = 0.01;

/** The share of requests that succeeded. */
export function successRate(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.successes, stratum.requests);
}

/** How long an answer takes, of those that succeeded. */
export function meanLatencyMs(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.latencyMs, stratum.successes);
}

export function meanTimeToFirstTokenMs(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.timeToFirstTokenMs, stratum.timed);
}

/** What an answer costs that succeeds, with what its failed attempts were billed. */
export function meanCostNanoUsd(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.costNanoUsd, stratum.successes);
}

/** The callers' own judgement, from 0 to 1. */
export function meanScore(stratum: Stratum | undefined): number | undefined {
  return stratum && mean(stratum.scoreSum, stratum.scores);
}

function mean(sum: number, count: number): number | undefined {
  return count < LEAST_COUNT ? undefined : sum / count;
}
