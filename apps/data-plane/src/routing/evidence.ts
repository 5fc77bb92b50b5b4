import type { Evidence, ModelEvidence } from '@weighbridge/contracts';
import { type Strata, type Stratum, strataIn } from '@weighbridge/domain';

export interface EvidenceDeps {
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** What this proxy was told of how models do of late. Without it, all are as unknown as each other. */
export interface KnownEvidence {
  readonly take: (news: Evidence) => void;
  readonly strata: Strata;
  /** How many workload types something is known of. */
  readonly size: number;
}

type OfModels = ReadonlyMap<string, Stratum>;

/** More than any control plane keeps. */
const MAX_TYPES = 2_000;

export function createEvidence({ nowMs }: EvidenceDeps): KnownEvidence {
  const types = new Map<string, OfModels>();
  let strata = strataIn(types, nowMs);

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
      strata = strataIn(types, nowMs);
    },
    strata: (workloadType, model) => strata(workloadType, model),
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
