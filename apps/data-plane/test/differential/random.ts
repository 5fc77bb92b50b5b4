import { seededRandom } from '@weighbridge/domain';

/** Pseudo-random choices from a seed, so that a case can be repeated. */
export interface Random {
  /** From 0 up to, and not including, `below`. */
  integer(below: number): number;
  chance(share: number): boolean;
  pick<T>(items: readonly T[]): T;
}

export function randomOf(seed: number): Random {
  const next = seededRandom(seed);
  const integer = (below: number) => Math.floor(next() * below);
  return {
    integer,
    chance: (share) => next() < share,
    pick: <T>(items: readonly T[]) => items[integer(items.length)] as T,
  };
}

/** Where to cut bytes into pieces, in order: none, some, or, where they are short, everywhere. */
export function cutsOf(random: Random, length: number): number[] {
  const kind = random.integer(4);
  if (kind === 0 || length < 2) return [];
  if (kind === 1 && length <= 200) return Array.from({ length: length - 1 }, (_, at) => at + 1);
  const count = 1 + random.integer(kind === 2 ? 3 : 12);
  const cuts = Array.from({ length: count }, () => 1 + random.integer(length - 1));
  return [...new Set(cuts)].sort((a, b) => a - b);
}

/** Copies: whoever reads a piece does not see what follows it. */
export function piecesOf(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts, bytes.length];
  return ends.map((end, at) => Buffer.from(bytes.subarray(ends[at - 1] ?? 0, end)));
}

const NOISE = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  '\n',
  '\r',
  '0',
  '-',
  'e',
  ' ',
  '\u0000',
  'é',
  '\ufeff',
];

/** The bytes with one to three changes. */
export function damaged(random: Random, bytes: Buffer): Buffer {
  let text = bytes;
  for (let left = 1 + random.integer(3); left > 0; left--) {
    const at = random.integer(text.length + 1);
    const [before, after] = [text.subarray(0, at), text.subarray(at)];
    const kind = random.integer(6);
    if (kind === 0) text = before;
    else if (kind === 1) text = Buffer.concat([before, after.subarray(1 + random.integer(4))]);
    else if (kind === 2) text = Buffer.concat([before, Buffer.from([random.integer(256)]), after]);
    else if (kind === 3)
      text = Buffer.concat([before, text.subarray(random.integer(text.length + 1), at), after]);
    else text = Buffer.concat([before, Buffer.from(random.pick(NOISE)), after.subarray(kind - 4)]);
  }
  return text;
}
