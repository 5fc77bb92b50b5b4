import { AppError } from '@weighbridge/errors';

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The value of a JSON body. Throws a 400 for what parsers read in different ways: bytes that are not UTF-8, which would be
 * stored as other characters, and a field that occurs twice in an object, of which some take the first and some the last.
 */
export function parseJsonBody(body: Buffer): unknown {
  let text: string;
  try {
    text = UTF8.decode(body);
  } catch {
    throw malformedJson('it is not UTF-8. Encode it as UTF-8.');
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw malformedJson(describeJsonError(error));
  }
  const path = duplicateField(text);
  if (path === undefined) return value;
  const shown = path.slice(0, 200);
  throw new AppError('invalid_request', 'duplicate_field', `${shown}: occurs more than once. Send it once.`, {
    param: shown,
  });
}

export function malformedJson(detail: string): AppError {
  return new AppError('invalid_request', 'malformed_json', `The body is not valid JSON: ${detail}`);
}

/** The parser's own message quotes the body, which may contain a secret. */
function describeJsonError(error: unknown): string {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1];
  const where = position === undefined ? '' : ` at character ${Number(position) + 1}`;
  return `it is incomplete or invalid${where}. Check for a missing quote, comma or bracket.`;
}

/** Strings and the signs that structure valid JSON; numbers and words are passed over. */
const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/** An object has names; in an array, `index` counts. */
interface Level {
  readonly names: Set<string> | undefined;
  name: string;
  index: number;
}

/** The path of the first field that occurs twice in its object, such as `prices.0.model`. `text` is valid JSON. */
export function duplicateField(text: string): string | undefined {
  const levels: Level[] = [];
  let isName = false;
  for (const [token] of text.matchAll(TOKENS)) {
    const level = levels[levels.length - 1];
    if (token === '{' || token === '[') {
      levels.push({ names: token === '{' ? new Set() : undefined, name: '', index: 0 });
      isName = token === '{';
    } else if (token === '}' || token === ']') {
      levels.pop();
      isName = false;
    } else if (token === ',') {
      if (level) level.index++;
      isName = level?.names !== undefined;
    } else if (token === ':') {
      isName = false;
    } else if (isName && level?.names) {
      level.name = JSON.parse(token);
      if (level.names.has(level.name)) return pathOf(levels);
      level.names.add(level.name);
    }
  }
  return undefined;
}

function pathOf(levels: readonly Level[]): string {
  return levels.map(({ names, name, index }) => (names ? name : String(index))).join('.');
}
