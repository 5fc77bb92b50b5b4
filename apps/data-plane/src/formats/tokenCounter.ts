/** A text is counted in pieces: the tokenizer takes quadratic time on a long run without a break. */
const PIECE_CHARACTERS = 512;
/** The rest of a longer text is extrapolated: counting must not block other requests. */
const MAX_COUNTED_CHARACTERS = 64 * 1024;

/** Returns the number of tokens of a text. */
export type CountTokens = (text: string) => Promise<number>;

/**
 * Counts with the encoding of current OpenAI models, which is close enough for others. The encoding takes about 70 MB, so
 * it is loaded when a vendor first reports no usage.
 */
export function createTokenCounter(): CountTokens {
  let encoding: Promise<(text: string) => number> | undefined;
  return async (text) => {
    if (text === '') return 0;
    encoding ??= loadEncoding();
    const count = await encoding;
    const counted = text.slice(0, MAX_COUNTED_CHARACTERS);
    let tokens = 0;
    for (let at = 0; at < counted.length; at += PIECE_CHARACTERS) {
      tokens += count(counted.slice(at, at + PIECE_CHARACTERS));
    }
    return Math.ceil((tokens * text.length) / counted.length);
  };
}

async function loadEncoding(): Promise<(text: string) => number> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base');
  // Special tokens in a text count as text, as they do at the vendors.
  return (text) => countTokens(text, { allowedSpecial: new Set(), disallowedSpecial: new Set() });
}
