import type { Tx } from '@weighbridge/database';
import { parseCloudName, parseModelId, shortened } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { findModelsNamed, lockNames, type NamedModelRow } from './catalog.repository.ts';
import { catalogProviders } from './catalog.service.ts';
import type { ModelNameFacts } from './catalog.ts';
import { assertNoProviders } from './otherNames.ts';

/**
 * Throws if the names of a model would take requests away from another model of the catalog, served or not: who wants that makes
 * an alias, which says so. What was true before is not checked again, since releases bring names too.
 */
export async function assertNoConflict(
  tx: Tx,
  id: string,
  names: ModelNameFacts,
  before: (ModelNameFacts & { readonly deleted_at: Date | null }) | undefined,
): Promise<void> {
  const isNew = !before || before.deleted_at !== null;
  const added = names.other_names.filter((name) => isNew || !before.other_names.includes(name));
  const becomesOwn = names.own && (isNew || !before.own);
  if (!isNew && !becomesOwn && added.length === 0) return;
  await lockNames(tx);
  assertNoProviders(added, await catalogProviders(tx));
  const bare = parseModelId(id)?.name ?? '';
  const spellings = new Map(added.flatMap((name) => spellingsOf(name).map((one) => [one, name] as const)));
  const others = await findModelsNamed(tx, id, [bare, ...spellings.keys()]);
  for (const other of others) {
    const otherBare = parseModelId(other.id)?.name ?? '';
    const taken = [other.id, otherBare, ...other.other_names].flatMap((name) => spellings.get(name) ?? [])[0];
    if (taken !== undefined) throw nameTaken(taken, other.id);
    const wins = names.own || !other.own;
    if ((isNew || becomesOwn) && wins && other.other_names.includes(bare))
      throw bareNameTaken(id, bare, other);
    if (becomesOwn && other.own && otherBare === bare) throw ownTaken(id, bare, other);
  }
}

/** The name, and what it stands for if it is a cloud's spelling: another name goes before those. */
function spellingsOf(name: string): string[] {
  const spelled = parseCloudName(name);
  if (!spelled) return [name];
  const { provider } = spelled;
  return [name, provider === undefined ? spelled.name : `${provider}/${spelled.name}`];
}

function nameTaken(name: string, other: string): AppError {
  const message = `The name ${shortened(name)} already stands for the model ${shortened(other)}. To send its requests to this model, create an alias.`;
  return new AppError('conflict', 'other_name_taken', message, { param: 'other_names' });
}

function bareNameTaken(id: string, bare: string, other: NamedModelRow): AppError {
  const message = `${shortened(bare)} is another name of the model ${shortened(other.id)}, and would stand for ${shortened(id)} instead. Remove it from the other_names of that model first.`;
  return new AppError('conflict', 'other_name_taken', message, { param: 'model' });
}

function ownTaken(id: string, bare: string, other: NamedModelRow): AppError {
  const message = `The catalog says that ${shortened(other.id)} is made by its provider, so ${shortened(bare)} stands for it and can't be own for ${shortened(id)} too. To send its requests to this model, create an alias.`;
  return new AppError('conflict', 'own_name_taken', message, { param: 'own' });
}
