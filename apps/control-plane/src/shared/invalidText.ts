// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the character to find.
const INVALID = /[\u0000\p{Surrogate}]/u;

/** Whether a text contains a character that Postgres cannot store: a NUL or an unpaired surrogate. */
export function hasInvalidCharacter(text: string): boolean {
  return INVALID.test(text);
}
