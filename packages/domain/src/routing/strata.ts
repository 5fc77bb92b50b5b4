import { ALL_WORKLOAD_TYPES, type Strata } from './rank.ts';
import { decayed, emptyStratum, merged, type Stratum } from './stratum.ts';

/** Strata by workload type and model. */
export type StrataByType = ReadonlyMap<string, ReadonlyMap<string, Stratum>>;

/**
 * Looks up what is known of a model at a workload type. Of a type of which nothing is kept, what is kept of those without
 * a name stands in: there it counts, where there are too many types to keep.
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
