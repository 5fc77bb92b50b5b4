import { setImmediate as endOfTurn } from 'node:timers/promises';

/** A text is counted in pieces: the tokenizer takes quadratic time on a long run without a break. */
const PIECE_CHARACTERS = 512;
/** The rest of a longer text is extrapolated. */
export const MAX_COUNTED_CHARACTERS = 64 * 1024;
/** A text of rare characters takes a second: after this long, others have their turn. */
const SLICE_MS = 10;

/** Returns the number of tokens of a text. `characters`: of the whole text, if `text` is only its beginning. */
export type CountTokens = (text: string, characters?: number) => Promise<number>;

/**
 * Counts with the encoding of current OpenAI models, which is close enough for others. The encoding takes about 70 MB, so
 * it is loaded when a vendor first reports no usage. One text is counted at a time, so that many take no more of a turn of the
 * event loop than one does.
 */
export function createTokenCounter(load = loadEncoding): CountTokens {
  let encoding: Promise<(text: string) => number> | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  return async (text, characters = text.length) => {
    if (text === '') return 0;
    encoding ??= load();
    const count = await encoding;
    const counted = text.slice(0, MAX_COUNTED_CHARACTERS);
    const mine = turn.then(() => countPieces(counted, count));
    turn = mine.catch(() => {});
    return Math.ceil(((await mine) * characters) / counted.length);
  };
}

async function countPieces(text: string, count: (piece: string) => number): Promise<number> {
  let tokens = 0;
  let began = performance.now();
  for (let at = 0; at < text.length; at += PIECE_CHARACTERS) {
    tokens += count(text.slice(at, at + PIECE_CHARACTERS));
    if (performance.now() - began < SLICE_MS) continue;
    await endOfTurn();
    began = performance.now();
  }
  return tokens;
}

async function loadEncoding(): Promise<(text: string) => number> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base');
  // Special tokens in a text count as text, as they do at the vendors.
  return (text) => countTokens(text, { allowedSpecial: new Set(), disallowedSpecial: new Set() });
}
