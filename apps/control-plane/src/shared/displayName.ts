import { AppError } from '@weighbridge/errors';

const MAX_NAME = 100;
/** Control characters, breaks of lines, and those that turn the direction of text: a name must look like what it is. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
const UNSHOWABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
/** What leaves no mark: spaces, format characters, fillers, tags. Among others they are fine: emoji are joined by them. */
const INVISIBLE = /^[\p{Z}\p{Cf}\p{Default_Ignorable_Code_Point}]*$/u;

/** The name as it is kept; a rule that it breaks is a 422. */
export function validDisplayName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '') throw nameInvalid('it is empty');
  if (Array.from(trimmed).length > MAX_NAME) throw nameInvalid(`it is longer than ${MAX_NAME} characters`);
  if (UNSHOWABLE.test(trimmed)) throw nameInvalid('it holds a control or bidirectional character');
  if (INVISIBLE.test(trimmed)) throw nameInvalid('nothing in it can be seen');
  return trimmed;
}

function nameInvalid(why: string): AppError {
  return new AppError('validation', 'name_invalid', `This name can't be used: ${why}.`, { param: 'name' });
}
