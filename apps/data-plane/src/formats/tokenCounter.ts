/** A text is counted piece by piece: a tokenizer takes quadratic time on a long run without any break in it. */
const PIECE_CHARACTERS = 512;
/** Beyond this, the rest is taken to be like the beginning: counting must not hold up other requests. */
const MAX_COUNTED_CHARACTERS = 64 * 1024;

/** How many tokens a text is. */
export type CountTokens = (text: string) => Promise<number>;

/**
 * Counts by the encoding of current OpenAI models, near enough for the others. The encoding takes some 70 MB, so it is
 * loaded only when a vendor first leaves out what it counted.
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
  // What looks like a control token is text here, as it is to the vendors.
  return (text) => countTokens(text, { allowedSpecial: new Set(), disallowedSpecial: new Set() });
}
