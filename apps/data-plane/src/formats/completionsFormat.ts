import { chatFormat } from './chatFormat.ts';
import { type JsonRecord, joinTexts, recordsIn } from './jsonFields.ts';
import type { ResponseFormat } from './responseFormat.ts';

/** Completions (https://platform.openai.com/docs/api-reference/completions): usage as in chat completions, and plain text. */
export const completionsFormat: ResponseFormat = {
  ...chatFormat,
  textOfEvent: textOfChoices,
  textOfBody: textOfChoices,
};

function textOfChoices({ choices }: JsonRecord): string {
  return joinTexts(recordsIn(choices).map(({ text }) => text));
}
