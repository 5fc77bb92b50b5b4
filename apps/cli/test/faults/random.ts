/** Pseudo-random choices from a seed (https://en.wikipedia.org/wiki/Xorshift), so that a run can be repeated. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** From 0 up to, and not including, `below`. */
  integer(below: number): number;
  chance(share: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** The same items in another order. */
  shuffled<T>(items: readonly T[]): T[];
}

export function randomFrom(seed: number): Random {
  // Spreads neighbouring seeds; a seed of zero would stay zero.
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  const integer = (below: number) => Math.floor(next() * below);
  return {
    next,
    integer,
    chance: (share) => next() < share,
    pick: <T>(items: readonly T[]) => items[integer(items.length)] as T,
    shuffled: <T>(items: readonly T[]) => {
      const left = [...items];
      for (let at = left.length - 1; at > 0; at--) {
        const other = integer(at + 1);
        [left[at], left[other]] = [left[other] as T, left[at] as T];
      }
      return left;
    },
  };
}
