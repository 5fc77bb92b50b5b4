import type { Evidence, ModelEvidence } from '@weighbridge/contracts';
import { added, decayed, emptyStratum, type Stratum } from '@weighbridge/domain';

export interface EvidenceDeps {
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** What this proxy was told of how models do of late. Without it, all are as unknown as each other. */
export interface KnownEvidence {
  take(news: Evidence): void;
  /**
   * What is known of a model at a workload type. Of a type of which nothing is known, what is known where callers name none
   * stands in; `*` is all of them together.
   */
  strata(workloadType: string, model: string): Stratum | undefined;
  /** How many workload types something is known of. */
  readonly size: number;
}

type OfModels = ReadonlyMap<string, Stratum>;

const ALL_WORKLOAD_TYPES = '*';
/** More than any control plane keeps. */
const MAX_TYPES = 2_000;

export function createEvidence({ nowMs }: EvidenceDeps): KnownEvidence {
  const types = new Map<string, OfModels>();
  /** Over all types; made when it is asked for. */
  let overall: OfModels | undefined;

  return {
    take({ isFirst, types: changed, forgottenTypes }) {
      if (isFirst) types.clear();
      for (const workloadType of forgottenTypes) types.delete(workloadType);
      for (const { workloadType, models, ageMs } of changed) {
        // The one that was told of last goes last.
        types.delete(workloadType);
        types.set(workloadType, ofModels(workloadType, models, nowMs() - Number(ageMs)));
      }
      for (const workloadType of types.keys()) {
        if (types.size <= MAX_TYPES) break;
        types.delete(workloadType);
      }
      overall = undefined;
    },
    strata(workloadType, model) {
      if (workloadType === ALL_WORKLOAD_TYPES) overall ??= together(types, nowMs());
      const known =
        workloadType === ALL_WORKLOAD_TYPES ? overall : (types.get(workloadType) ?? types.get(''));
      const stratum = known?.get(model);
      return stratum && decayed(stratum, nowMs());
    },
    get size() {
      return types.size;
    },
  };
}

function ofModels(workloadType: string, models: readonly ModelEvidence[], atMs: number): OfModels {
  return new Map(
    models.map(({ $typeName: _, $unknown: __, model, ...sums }) => [
      model,
      { workloadType, model, ...sums, atMs },
    ]),
  );
}

function together(types: ReadonlyMap<string, OfModels>, atMs: number): OfModels {
  const all = new Map<string, Stratum>();
  for (const models of types.values()) {
    for (const [model, stratum] of models) {
      const before = all.get(model) ?? emptyStratum(ALL_WORKLOAD_TYPES, model, atMs);
      all.set(model, { ...before, ...added(before, decayed(stratum, atMs)) });
    }
  }
  return all;
}
