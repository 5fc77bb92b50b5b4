// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the character to find.
const UNFIT = /[\u0000\p{Surrogate}]/u;

/** Whether a text holds what JSON and URLs can hold, and no column: a NUL, or half of a surrogate pair. */
export function hasInvalidCharacter(text: string): boolean {
  return UNFIT.test(text);
}
