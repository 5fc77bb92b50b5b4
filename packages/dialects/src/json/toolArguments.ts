import type { JsonText } from '../ir/request.ts';
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  JsonCursor,
  JsonScanError,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './jsonCursor.ts';

const BACKSLASH = 0x5c;

/** Where Anthropic's API wants arguments that are no JSON object (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/fine-grained-tool-streaming). */
const INVALID = 'INVALID_JSON';

/** No tool has deeper arguments, and vendors fail on them. */
const MAX_DEPTH = 512;

/** Arguments as a JSON object, byte for byte; what is none, or too deep, is wrapped. Models without arguments write nothing. */
export function argumentsObject(input: string): { readonly json: JsonText; readonly isWrapped: boolean } {
  if (input.trim() === '') return { json: '{}' as JsonText, isWrapped: false };
  if (isObject(input) && !isDeep(input)) return { json: input as JsonText, isWrapped: false };
  return { json: `{"${INVALID}":${JSON.stringify(input)}}` as JsonText, isWrapped: true };
}

/** Without a tree: a caller may send arguments of any size. */
function isObject(json: string): boolean {
  const cursor = new JsonCursor(Buffer.from(json));
  try {
    cursor.space();
    if (cursor.peek() !== OPEN_OBJECT) return false;
    cursor.skipValue();
    cursor.space();
    return cursor.peek() === undefined;
  } catch (error) {
    if (error instanceof JsonScanError) return false;
    throw error;
  }
}

function isDeep(json: string): boolean {
  if (json.length <= 2 * MAX_DEPTH) return false;
  let depth = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) isText = !isText;
    else if (isText) at += code === BACKSLASH ? 1 : 0;
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (++depth > MAX_DEPTH) return true;
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth--;
  }
  return false;
}
