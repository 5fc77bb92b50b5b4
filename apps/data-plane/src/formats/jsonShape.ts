import type { JsonRecord } from './jsonFields.ts';

/** What is wanted of an object: its members by name. */
export class Shape extends Map<string, Wanted> {
  /** One bit for each length of a name: most keys are told apart by it, without being read. */
  readonly #lengths: number;

  constructor(members: Readonly<Record<string, Wanted>>) {
    super(Object.entries(members));
    this.#lengths = [...this.keys()].reduce((lengths, { length }) => lengths | (1 << length), 0);
  }

  /** False if no wanted name has this length; names are shorter than 32 bytes. */
  hasLength(length: number): boolean {
    return length < 32 && ((this.#lengths >>> length) & 1) === 1;
  }
}

export function shape(members: Readonly<Record<string, Wanted>>): Shape {
  return new Shape(members);
}

/**
 * What is wanted of a value: all of it, if it is small; that it is there and not null; some members of an object; or some
 * members of the objects in an array, of those that `keeps` chooses.
 */
export type Wanted = 'value' | 'presence' | { readonly members: Shape } | ItemsWanted;

export interface ItemsWanted {
  readonly items: Shape;
  readonly keeps: (item: JsonRecord) => boolean;
}

/** An array of which some items were kept. */
export class PrunedItems {
  count = 0;
  readonly kept: JsonRecord[] = [];
}
