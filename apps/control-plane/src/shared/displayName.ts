import { AppError } from '@weighbridge/errors';

const MAX_NAME = 100;
/** Control characters, line breaks, and characters that change the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
/** Only spaces, format characters, fillers and tags. Next to visible characters they are fine: they join emoji. */
const INVISIBLE = /^[\p{Z}\p{Cf}\p{Default_Ignorable_Code_Point}]*$/u;

/** Returns the trimmed name; throws a 422 if it breaks a rule. */
export function validDisplayName(name: string, param = 'name'): string {
  const trimmed = name.trim();
  const nameInvalid = (why: string) => invalidName(why, param);
  if (trimmed === '') throw nameInvalid('it is empty');
  if (Array.from(trimmed).length > MAX_NAME) throw nameInvalid(`it is longer than ${MAX_NAME} characters`);
  // Before trimming: line breaks and tabs at its ends are control characters, too.
  if (UNPRINTABLE.test(name)) throw nameInvalid('it contains a control or bidirectional character');
  if (INVISIBLE.test(trimmed)) throw nameInvalid('it has no visible character');
  return trimmed;
}

function invalidName(why: string, param: string): AppError {
  return new AppError('validation', 'name_invalid', `This name cannot be used: ${why}.`, { param });
}
