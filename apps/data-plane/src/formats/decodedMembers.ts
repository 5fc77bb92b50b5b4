import { JsonCursor, QUOTE, type Span } from '@weighbridge/dialects';
import { parseSmall } from './fieldReader.ts';

const ESCAPE = Buffer.from('\\u00');
const COLON = 0x3a;
const MAX_VALUE_BYTES = 128;

/** A name may be written with escapes, such as `shell` as `\u0073hell`. */
export function hasEscapedLetter(bytes: Buffer): boolean {
  for (let at = bytes.indexOf(ESCAPE); at >= 0; at = bytes.indexOf(ESCAPE, at + ESCAPE.length)) {
    const digit = bytes[at + ESCAPE.length] ?? 0;
    if (digit >= 0x32 && digit <= 0x37) return true;
  }
  return false;
}

/**
 * Whether some object in a JSON document has a member of one of these names, however it is written, with a value that `accepts`
 * takes: a short text, or undefined for any other value.
 */
export function hasMember(
  bytes: Buffer,
  names: readonly string[],
  accepts: (value: string | undefined) => boolean = () => true,
): boolean {
  if (!names.some((name) => bytes.includes(`"${name}"`)) && !hasEscapedLetter(bytes)) return false;
  const cursor = new JsonCursor(bytes);
  for (;;) {
    const start = bytes.indexOf(QUOTE, cursor.at);
    if (start < 0) return false;
    cursor.at = start;
    const isEscaped = cursor.string();
    const { at: end } = cursor;
    cursor.space();
    // Most texts are no names, and are not decoded.
    if (cursor.peek() !== COLON) continue;
    cursor.at++;
    const name = textOf(bytes, { start, end }, isEscaped);
    if (name === undefined || !names.includes(name)) continue;
    cursor.space();
    if (accepts(cursor.peek() === QUOTE ? textAt(cursor) : undefined)) return true;
  }
}

/** The text at the cursor, which moves past it; undefined if it is long. */
function textAt(cursor: JsonCursor): string | undefined {
  const start = cursor.at;
  const isEscaped = cursor.string();
  return textOf(cursor.bytes, { start, end: cursor.at }, isEscaped);
}

function textOf(bytes: Buffer, { start, end }: Span, isEscaped: boolean): string | undefined {
  if (end - start > MAX_VALUE_BYTES) return undefined;
  if (!isEscaped) return bytes.toString('utf8', start + 1, end - 1);
  const text = parseSmall(bytes, { start, end }, MAX_VALUE_BYTES);
  return typeof text === 'string' ? text : undefined;
}
