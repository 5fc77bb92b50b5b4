import type { Evidence, ModelEvidence } from '@weighbridge/contracts';
import { type Strata, type Stratum, strataIn } from '@weighbridge/domain';

export interface EvidenceStoreDeps {
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** The evidence about models that the control plane sent. Without any, all models are equally unknown. */
export interface EvidenceStore {
  readonly apply: (update: Evidence) => void;
  readonly strata: Strata;
  /** The number of workload types with evidence. */
  readonly size: number;
}

type StrataByModel = ReadonlyMap<string, Stratum>;

/** More than a control plane stores. */
const MAX_TYPES = 2_000;

export function createEvidenceStore({ nowMs }: EvidenceStoreDeps): EvidenceStore {
  const types = new Map<string, StrataByModel>();
  let strata = strataIn(types, nowMs);

  return {
    apply({ isFirst, types: changed, forgottenTypes }) {
      if (isFirst) types.clear();
      for (const workloadType of forgottenTypes) types.delete(workloadType);
      for (const { workloadType, models, ageMs } of changed) {
        // Deleted first, so that the latest update is last in the map.
        types.delete(workloadType);
        types.set(workloadType, strataByModel(workloadType, models, nowMs() - Number(ageMs)));
      }
      for (const workloadType of types.keys()) {
        if (types.size <= MAX_TYPES) break;
        types.delete(workloadType);
      }
      strata = strataIn(types, nowMs);
    },
    strata: (workloadType, model) => strata(workloadType, model),
    get size() {
      return types.size;
    },
  };
}

function strataByModel(workloadType: string, models: readonly ModelEvidence[], atMs: number): StrataByModel {
  return new Map(
    models.map(({ $typeName: _, $unknown: __, model, ...sums }) => [
      model,
      { workloadType, model, ...sums, atMs },
    ]),
  );
}
