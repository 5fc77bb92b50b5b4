import type { Alias } from './aliasIndex.ts';
import type { NameableModel } from './modelNames.ts';
import { nearestNames } from './nearestNames.ts';

interface SuggestedModel extends Pick<NameableModel, 'id' | 'provider' | 'otherNames'> {
  /** The vendor's own name of the model. */
  readonly upstreamName: string;
}

/**
 * Names of reachable models, the most similar to `wanted` first: by ids, aliases, their other names behind the provider, and the
 * names that vendors give them.
 */
export function nearestModels<Model extends SuggestedModel>(
  wanted: string,
  models: Iterable<Model>,
  aliases: readonly Pick<Alias, 'name' | 'target'>[],
  isReachable: (model: Model) => boolean,
): string[] {
  const byName = new Map<string, Model>();
  const byId = new Map<string, Model>();
  for (const model of models) {
    if (model.upstreamName.toLowerCase() === wanted.toLowerCase() && isReachable(model)) return [model.id];
    byId.set(model.id, model);
    for (const name of model.otherNames) byName.set(`${model.provider}/${name}`, model);
  }
  for (const [id, model] of byId) byName.set(id, model);
  for (const { name, target } of aliases) {
    const model = byId.get(target);
    if (model) byName.set(name, model);
  }
  const suggested = new Set<Model>();
  return nearestNames(wanted, byName.keys(), (name) => {
    const model = byName.get(name);
    // One name of each model is enough.
    if (!model || suggested.has(model) || !isReachable(model)) return false;
    suggested.add(model);
    return true;
  });
}
