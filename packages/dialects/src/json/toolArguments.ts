import type { JsonText } from '../ir/request.ts';
import { isRecord } from '../loss/fields.ts';
import { parseJson } from './writeJson.ts';

/** Where Anthropic's API wants arguments that are no JSON object (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming). */
const INVALID = 'INVALID_JSON';

/** Arguments as a JSON object, byte for byte; what is none is wrapped. Models without arguments write nothing. */
export function argumentsObject(input: string): { readonly json: JsonText; readonly isWrapped: boolean } {
  if (input.trim() === '') return { json: '{}' as JsonText, isWrapped: false };
  if (isRecord(parseJson(input))) return { json: input as JsonText, isWrapped: false };
  return { json: `{"${INVALID}":${JSON.stringify(input)}}` as JsonText, isWrapped: true };
}
