import { COMMA, dataInPlace, JsonCursor, JsonScanError, OPEN_OBJECT } from '@weighbridge/dialects';
import type { Span } from './scanJson.ts';

const USAGE = ['usage'];
const NULL = Buffer.from('null');

/**
 * What to cut out of an event so that its data, a JSON object, lacks the members `"usage":null`: vendors add them to every
 * chunk if they are asked for the usage. Members of objects within it stay. Nothing of what is no JSON object.
 */
export function nullUsageSpans(event: Buffer): Span[] {
  const { bytes, offset } = dataInPlace(event);
  const cuts = cutsOf(bytes);
  return offset === 0 ? cuts : cuts.map(({ start, end }) => ({ start: start + offset, end: end + offset }));
}

function cutsOf(bytes: Buffer): Span[] {
  const cursor = new JsonCursor(bytes);
  cursor.space();
  if (cursor.peek() !== OPEN_OBJECT) return [];
  try {
    return cutsAt(cursor);
  } catch (error) {
    if (error instanceof JsonScanError) return [];
    throw error;
  }
}

/** The cursor is before an object. */
function cutsAt(cursor: JsonCursor): Span[] {
  const cuts: Span[] = [];
  let hasKept = false;
  let next: number | undefined = COMMA;
  for (let separator = cursor.at; next === COMMA; ) {
    cursor.at = separator + 1;
    cursor.space();
    const start = cursor.at;
    const isNull = cursor.isKeyOf(USAGE) && isNullAt(cursor);
    cursor.skipValue();
    const end = cursor.at;
    cursor.space();
    next = cursor.peek();
    // With the comma before it, or with the one after it where no member is left before it.
    if (!isNull) hasKept = true;
    else
      cuts.push(hasKept ? { start: separator, end } : { start, end: next === COMMA ? cursor.at + 1 : end });
    separator = cursor.at;
  }
  return cuts;
}

function isNullAt({ bytes, at }: JsonCursor): boolean {
  return bytes.compare(NULL, 0, NULL.length, at, Math.min(at + NULL.length, bytes.length)) === 0;
}
