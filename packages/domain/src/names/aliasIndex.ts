/** An operator's name for a model or a profile. */
export interface Alias {
  readonly id: string;
  /** Exact, or a beginning followed by `*`. */
  readonly name: string;
  /** The id of a model, or `router/<profile>`. */
  readonly target: string;
  /** The policy whose keys have it; undefined: all keys. */
  readonly policyId?: string | undefined;
}

/** Stands for the rest of a name, at its end. */
const WILDCARD = '*';

/** Finds the alias for a name: the exact one, else the one with the longest beginning. */
export class AliasIndex<One extends Alias> {
  readonly #exact = new Map<string, One>();
  readonly #byBeginning = new Map<string, One>();
  /** The lengths of the beginnings, the longest first. */
  readonly #lengths: readonly number[];

  constructor(aliases: readonly One[]) {
    for (const alias of aliases) {
      const { name } = alias;
      if (name.endsWith(WILDCARD)) this.#byBeginning.set(name.slice(0, -1), alias);
      else this.#exact.set(name, alias);
    }
    this.#lengths = [...new Set([...this.#byBeginning.keys()].map(({ length }) => length))].sort(
      (a, b) => b - a,
    );
  }

  /** Those without `*`. */
  exact(): Iterable<One> {
    return this.#exact.values();
  }

  find(name: string): One | undefined {
    const exact = this.#exact.get(name);
    if (exact) return exact;
    for (const length of this.#lengths) {
      const found = length <= name.length ? this.#byBeginning.get(name.slice(0, length)) : undefined;
      if (found) return found;
    }
    return undefined;
  }
}
