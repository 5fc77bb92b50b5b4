const BYTES_PER_TOKEN = 4;
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;

/** The limit per choice; a longer output is truncated, with `finish_reason: "length"`. */
export const MAX_OUTPUT_TOKENS = 128_000;

/** One token per started 4 bytes of UTF-8. */
export function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** One token per started 4 bytes of UTF-8. */
export function tokensOfText(text: string): number {
  return tokensOfBytes(Buffer.byteLength(text));
}

/** The tokens of each message's text, 4 more per message, and 3 for the prompt. */
export function tokensOfPrompt(messageTexts: readonly string[]): number {
  return messageTexts.reduce((sum, text) => sum + tokensOfText(text) + TOKENS_PER_MESSAGE, TOKENS_PER_PROMPT);
}

/** The longest prefix of the text of at most `tokens` tokens that splits no character. */
export function firstTokens(text: string, tokens: number): string {
  if (tokensOfText(text) <= tokens) return text;
  const bytes = Buffer.from(text);
  let end = tokens * BYTES_PER_TOKEN;
  // 10xxxxxx continues a character: go back to its start.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

const WORDS = ['the', 'cat', 'saw', 'one', 'big', 'red', 'fox', 'run', 'far', 'off', 'and', 'sat'];

/** A text of exactly `tokens` tokens, one word each. */
export function textOfTokens(tokens: number): string {
  const words: string[] = [];
  for (let at = 0; at < tokens; at += 1) {
    words.push(`${WORDS[at % WORDS.length]}${at === tokens - 1 ? '.' : ' '}`);
  }
  return words.join('');
}
