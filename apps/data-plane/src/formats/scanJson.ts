import type { KeyWatch } from '@weighbridge/dialects';
import {
  CLOSE_OBJECT,
  COMMA,
  type JsonCursor,
  JsonScanError,
  OPEN_OBJECT,
  type Span,
} from '@weighbridge/dialects';
import { cursorOver } from './longValues.ts';

export { JsonScanError, type Span } from '@weighbridge/dialects';

export interface ScanOptions {
  /** A wanted field that occurs twice is an error, or its last value counts. Default: `refuse`. */
  readonly duplicates?: 'refuse' | 'last';
  /** Fields that may not occur in another case: some vendors take them in any. */
  readonly exactCase?: readonly string[];
  /** Notices keys at any depth. */
  readonly watch?: KeyWatch | undefined;
  /** Where the object is in the bytes. Default: they are the object, with space around it. */
  readonly within?: Span;
}

/**
 * Finds top-level fields of a JSON object in one pass over its bytes, without parsing it: memory stays flat however large
 * or deeply nested it is. It accepts what `JSON.parse` accepts, except that a wanted field may occur only once: vendors
 * differ in which of two they read.
 */
export function scanObject(
  bytes: Uint8Array,
  wanted: ReadonlySet<string>,
  options: ScanOptions = {},
): Map<string, Span> {
  const { within: { start, end } = { start: 0, end: bytes.length }, watch } = options;
  const cursor = cursorOver(bytes, watch);
  cursor.at = start;
  cursor.space();
  if (cursor.peek() !== OPEN_OBJECT) throw cursor.error('expected an object');
  cursor.at++;
  cursor.space();
  const found = new Map<string, Span>();
  if (cursor.peek() === CLOSE_OBJECT) cursor.at++;
  else scanMembers(cursor, wanted, found, options);
  cursor.space();
  if (cursor.at < end) throw cursor.error('unexpected bytes after the object');
  return found;
}

function scanMembers(
  cursor: JsonCursor,
  wanted: ReadonlySet<string>,
  found: Map<string, Span>,
  { duplicates, exactCase }: ScanOptions,
): void {
  for (;;) {
    const name = cursor.key();
    const start = cursor.at;
    cursor.skipValue();
    if (wanted.has(name)) {
      if (found.has(name) && duplicates !== 'last') throw new JsonScanError(`"${name}" occurs twice`, name);
      found.set(name, { start, end: cursor.at });
    } else if (exactCase?.some((field) => isVariant(name, field))) {
      throw new JsonScanError(`"${name}" is written in another case`, undefined, name);
    }
    cursor.space();
    const next = cursor.bytes[cursor.at++];
    if (next === CLOSE_OBJECT) return;
    if (next !== COMMA) throw cursor.error('expected "," or "}"', cursor.at - 1);
    cursor.space();
  }
}

function isVariant(name: string, field: string): boolean {
  return name.length === field.length && name !== field && name.toLowerCase() === field;
}
