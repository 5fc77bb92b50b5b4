import { findNames } from './namedFields.ts';
import type { Fields } from './requestFields/field.ts';

/** Called with the path of a field, such as `fallbacks[0].model`, and the name in it. */
export type OnModel = (path: string, name: string) => void;

const OTHERS = new WeakMap<Fields, Fields>();

/**
 * Finds the models that a request names in the fields that the table of its operation knows to name one, besides its own
 * `model`. The bytes must be a JSON object; values that can't name a model are skipped.
 */
export function findNamedModels(bytes: Buffer, fields: Fields, onModel: OnModel): void {
  findNames(bytes, othersOf(fields), 'model', onModel);
}

function othersOf(fields: Fields): Fields {
  const known = OTHERS.get(fields);
  if (known) return known;
  const { model: _own, ...others } = fields;
  OTHERS.set(fields, others);
  return others;
}
