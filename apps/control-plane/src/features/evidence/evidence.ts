import {
  adaptiveOrder,
  describeStratum,
  meanCostNanoUsd,
  meanLatencyMs,
  meanScore,
  meanTimeToFirstTokenMs,
  type Stratum,
  seededRandom,
  successRate,
} from '@weighbridge/domain';
import type { NamedStratum } from '@weighbridge/evidence';

/** A model at a workload type, with what is known of it, if anything is. */
export interface Belief {
  readonly workloadType: string;
  /** What callers call the workload type. */
  readonly name: string;
  readonly model: string;
  readonly stratum: NamedStratum | undefined;
}

/** As the API shows it. */
export interface PresentedEvidence {
  readonly workload_type: string;
  readonly workload_type_key: string;
  readonly model: string;
  readonly requests: number;
  readonly success_rate: number | null;
  readonly mean_latency_ms: number | null;
  readonly mean_time_to_first_token_ms: number | null;
  readonly mean_cost_micro_usd: number | null;
  readonly mean_score: number | null;
  readonly scores: number;
  readonly updated_at: string | null;
  readonly probability: number | null;
  readonly why: string;
}

/** How many orders are drawn to tell how often a model comes first: it is off by a few hundredths then. */
const DRAWS = 300;

/** Every stratum by workload type and model. With targets: those of each type, known or not. */
export function beliefs(strata: readonly NamedStratum[], targets: readonly string[] | undefined): Belief[] {
  const known = strata.map((stratum) => ({
    workloadType: stratum.workloadType,
    name: stratum.name,
    model: stratum.model,
    stratum,
  }));
  const all: Belief[] = targets ? withUnknown(known, targets) : known;
  return all.sort((a, b) => order(a.workloadType, b.workloadType) || order(a.model, b.model));
}

/** A profile of which nothing is known yet still has its targets, at the unnamed workload type. */
function withUnknown(known: readonly Belief[], targets: readonly string[]): Belief[] {
  const types = new Map<string, string>([['', '']]);
  for (const { workloadType, name } of known) types.set(workloadType, name);
  const found = new Map(known.map((belief) => [`${belief.workloadType}/${belief.model}`, belief]));
  return [...types].flatMap(([workloadType, name]) =>
    targets.map(
      (model) => found.get(`${workloadType}/${model}`) ?? { workloadType, name, model, stratum: undefined },
    ),
  );
}

/** Shows beliefs; `isChoice` where those of a workload type are what is chosen from. */
export function presentEvidence(
  all: readonly Belief[],
  isChoice: boolean,
): (belief: Belief) => PresentedEvidence {
  const shares = new Map<string, Map<string, number>>();
  const shareOf = ({ workloadType, model }: Belief): number => {
    const known =
      shares.get(workloadType) ?? drawShares(all.filter((other) => other.workloadType === workloadType));
    shares.set(workloadType, known);
    return known.get(model) ?? 0;
  };
  return (belief) => {
    const { stratum } = belief;
    return {
      workload_type: belief.name,
      workload_type_key: belief.workloadType,
      model: belief.model,
      requests: rounded(stratum?.requests ?? 0, 3),
      success_rate: shown(successRate(stratum), 4),
      mean_latency_ms: shown(meanLatencyMs(stratum), 1),
      mean_time_to_first_token_ms: shown(meanTimeToFirstTokenMs(stratum), 1),
      mean_cost_micro_usd: shown(microOf(meanCostNanoUsd(stratum)), 3),
      mean_score: shown(meanScore(stratum), 4),
      scores: rounded(stratum?.scores ?? 0, 3),
      updated_at: stratum?.usedAt.toISOString() ?? null,
      probability: isChoice ? shareOf(belief) : null,
      why: describeStratum(stratum),
    };
  };
}

/** How often each comes first, by draws that are the same whenever the evidence is. */
function drawShares(choice: readonly Belief[]): Map<string, number> {
  const arms: { model: string; stratum: Stratum | undefined }[] = [...choice];
  const random = seededRandom(1);
  const firsts = new Map<string, number>();
  for (let draw = 0; draw < DRAWS; draw++) {
    const model = adaptiveOrder(arms, random)[0]?.model ?? '';
    firsts.set(model, (firsts.get(model) ?? 0) + 1);
  }
  return new Map([...firsts].map(([model, count]) => [model, rounded(count / DRAWS, 3)]));
}

function microOf(nano: number | undefined): number | undefined {
  return nano === undefined ? undefined : nano / 1_000;
}

function shown(value: number | undefined, digits: number): number | null {
  return value === undefined ? null : rounded(value, digits);
}

function rounded(value: number, digits: number): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
