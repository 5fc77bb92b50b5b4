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
import type { Evidence } from './evidence.schemas.ts';

/** The evidence on a model at a workload type. */
export interface ModelEvidence {
  readonly workloadType: string;
  /** The X-Svc-Workload-Type that the key stands for. */
  readonly name: string;
  readonly model: string;
  /** Undefined: there is no evidence. */
  readonly stratum: NamedStratum | undefined;
}

/** Orders drawn to estimate how often a model comes first: the error is a few hundredths. */
const DRAWS = 300;

/** The evidence by workload type and model. With targets: each target at each type, with or without evidence. */
export function evidenceRows(
  strata: readonly NamedStratum[],
  targets: readonly string[] | undefined,
): ModelEvidence[] {
  const known = strata.map((stratum) => ({
    workloadType: stratum.workloadType,
    name: stratum.name,
    model: stratum.model,
    stratum,
  }));
  const all: ModelEvidence[] = targets ? evidenceOfTargets(known, targets) : known;
  return all.sort((a, b) => order(a.workloadType, b.workloadType) || order(a.model, b.model));
}

/** Targets without evidence are listed too, at least at the empty workload type. */
function evidenceOfTargets(known: readonly ModelEvidence[], targets: readonly string[]): ModelEvidence[] {
  const types = new Map<string, string>([['', '']]);
  for (const { workloadType, name } of known) types.set(workloadType, name);
  const found = new Map(known.map((row) => [`${row.workloadType}/${row.model}`, row]));
  return [...types].flatMap(([workloadType, name]) =>
    targets.map(
      (model) => found.get(`${workloadType}/${model}`) ?? { workloadType, name, model, stratum: undefined },
    ),
  );
}

/** Presents evidence; `isChoice` if the rows of a workload type are the targets that `adaptive` chooses from. */
export function presentEvidence(
  all: readonly ModelEvidence[],
  isChoice: boolean,
): (row: ModelEvidence) => Evidence {
  const shares = new Map<string, Map<string, number>>();
  const shareOf = ({ workloadType, model }: ModelEvidence): number => {
    const drawn =
      shares.get(workloadType) ?? drawShares(all.filter((other) => other.workloadType === workloadType));
    shares.set(workloadType, drawn);
    return drawn.get(model) ?? 0;
  };
  return (row) => {
    const { stratum } = row;
    return {
      workload_type: row.name,
      workload_type_key: row.workloadType,
      model: row.model,
      requests: rounded(stratum?.requests ?? 0, 3),
      success_rate: shown(successRate(stratum), 4),
      mean_latency_ms: shown(meanLatencyMs(stratum), 1),
      mean_time_to_first_token_ms: shown(meanTimeToFirstTokenMs(stratum), 1),
      mean_cost_micro_usd: shown(microOf(meanCostNanoUsd(stratum)), 3),
      mean_score: shown(meanScore(stratum), 4),
      scores: rounded(stratum?.scores ?? 0, 3),
      updated_at: stratum?.usedAt.toISOString() ?? null,
      probability: isChoice ? shareOf(row) : null,
      why: describeStratum(stratum),
    };
  };
}

/** How often each model comes first. The seed is fixed: the same evidence gives the same shares. */
function drawShares(choice: readonly ModelEvidence[]): Map<string, number> {
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
