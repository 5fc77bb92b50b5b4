import { ALL_WORKLOAD_TYPES, type Strata } from './rank.ts';
import { decayed, emptyStratum, merged, type Stratum } from './stratum.ts';

/** Strata by workload type and model. */
export type StrataByType = ReadonlyMap<string, ReadonlyMap<string, Stratum>>;

/**
 * Looks up the stratum of a model for a workload type. A type without strata uses those of the unnamed type, which also
 * collects the types beyond the maximum.
 */
export function strataIn(types: StrataByType, nowMs: () => number): Strata {
  let overall: ReadonlyMap<string, Stratum> | undefined;
  return (workloadType, model) => {
    if (workloadType === ALL_WORKLOAD_TYPES) overall ??= together(types, nowMs());
    const known = workloadType === ALL_WORKLOAD_TYPES ? overall : (types.get(workloadType) ?? types.get(''));
    const stratum = known?.get(model);
    return stratum && decayed(stratum, nowMs());
  };
}

export function byWorkloadType(strata: Iterable<Stratum>): StrataByType {
  const types = new Map<string, Map<string, Stratum>>();
  for (const stratum of strata) {
    const models = types.get(stratum.workloadType) ?? new Map<string, Stratum>();
    types.set(stratum.workloadType, models.set(stratum.model, stratum));
  }
  return types;
}

function together(types: StrataByType, atMs: number): ReadonlyMap<string, Stratum> {
  const all = new Map<string, Stratum>();
  for (const models of types.values()) {
    for (const [model, stratum] of models) {
      all.set(model, merged(all.get(model) ?? emptyStratum(ALL_WORKLOAD_TYPES, model, atMs), stratum));
    }
  }
  return all;
}
