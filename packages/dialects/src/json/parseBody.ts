import type { JsonText } from '../ir/request.ts';
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  JsonCursor,
  JsonScanError,
  OPEN_ARRAY,
  OPEN_OBJECT,
  type Span,
} from './jsonCursor.ts';

/** Which values of a body are kept as they were written: the members and items that lead to them. */
export type KeptShape =
  | 'kept'
  | { readonly members?: Readonly<Record<string, KeptShape>>; readonly items?: KeptShape };

export interface ParsedBody {
  /** In place of each kept value: its number. */
  readonly value: unknown;
  readonly kept: readonly JsonText[];
}

/**
 * Parses a body, but keeps the values that `shape` leads to as they were written: `JSON.parse` turns 1.0 into 1, rounds large
 * integers, reorders keys that look like integers, and rewrites escapes. Undefined if the bytes are not JSON.
 */
export function parseBody(bytes: Uint8Array, shape: KeptShape): ParsedBody | undefined {
  const cursor = new JsonCursor(bytes);
  const spans: Span[] = [];
  try {
    cursor.space();
    walk(cursor, shape, spans);
    cursor.space();
  } catch (error) {
    if (error instanceof JsonScanError) return undefined;
    throw error;
  }
  if (cursor.at < cursor.bytes.length) return undefined;
  const kept: JsonText[] = [];
  let reduced = '';
  let at = 0;
  for (const { start, end } of spans) {
    reduced += cursor.bytes.toString('utf8', at, start) + kept.length;
    kept.push(cursor.bytes.toString('utf8', start, end) as JsonText);
    at = end;
  }
  reduced += cursor.bytes.toString('utf8', at);
  return { value: JSON.parse(reduced), kept };
}

/** Recursion is as deep as the shape. */
function walk(cursor: JsonCursor, shape: KeptShape | undefined, spans: Span[]): void {
  const start = cursor.at;
  if (shape === 'kept') {
    cursor.skipValue();
    spans.push({ start, end: cursor.at });
  } else if (shape?.members && cursor.peek() === OPEN_OBJECT) walkMembers(cursor, shape.members, spans);
  else if (shape?.items && cursor.peek() === OPEN_ARRAY) walkItems(cursor, shape.items, spans);
  else cursor.skipValue();
}

function walkMembers(cursor: JsonCursor, members: Readonly<Record<string, KeptShape>>, spans: Span[]): void {
  if (isEmpty(cursor, CLOSE_OBJECT)) return;
  for (;;) {
    const name = cursor.key();
    walk(cursor, Object.hasOwn(members, name) ? members[name] : undefined, spans);
    if (!hasNext(cursor, CLOSE_OBJECT)) return;
  }
}

function walkItems(cursor: JsonCursor, items: KeptShape, spans: Span[]): void {
  if (isEmpty(cursor, CLOSE_ARRAY)) return;
  for (;;) {
    walk(cursor, items, spans);
    if (!hasNext(cursor, CLOSE_ARRAY)) return;
  }
}

/** Moves into a container, or past it if it is empty. */
function isEmpty(cursor: JsonCursor, close: number): boolean {
  cursor.at++;
  cursor.space();
  if (cursor.peek() !== close) return false;
  cursor.at++;
  return true;
}

function hasNext(cursor: JsonCursor, close: number): boolean {
  cursor.space();
  const byte = cursor.peek();
  cursor.at++;
  if (byte === close) return false;
  if (byte !== COMMA) throw cursor.error('expected ","', cursor.at - 1);
  cursor.space();
  return true;
}
