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
  TooManyItems,
} from './jsonCursor.ts';

/** Which values of a body are kept as they were written: the members and items that lead to them. */
export type KeptShape =
  | 'kept'
  | { readonly members?: Readonly<Record<string, KeptShape>>; readonly items?: KeptShape };

interface Walk {
  readonly spans: Span[];
  /** How many more items may come. */
  itemsLeft: number;
  readonly maxDepth: number;
}

export interface ParseLimits {
  /** Of the lists of the shape. */
  readonly maxItems?: number | undefined;
  /** Of all values: each takes memory once it is parsed, however short it is. */
  readonly maxValues?: number | undefined;
  /** Of values that are not kept as they were written: what reads them recurses. */
  readonly maxDepth?: number | undefined;
}

export interface ParsedBody {
  /** In place of each kept value: its number. */
  readonly value: unknown;
  readonly kept: readonly JsonText[];
}

/**
 * Parses a body, but keeps the values that `shape` leads to as they were written: `JSON.parse` turns 1.0 into 1, rounds large
 * integers, reorders keys that look like integers, and rewrites escapes. Undefined if the bytes are not JSON. Throws `TooManyItems`
 * before anything is parsed.
 */
export function parseBody(
  bytes: Uint8Array,
  shape: KeptShape,
  { maxItems = ANY, maxValues = ANY, maxDepth = ANY }: ParseLimits = {},
): ParsedBody | undefined {
  const cursor = new JsonCursor(bytes);
  cursor.maxSkipped = maxValues;
  const state: Walk = { spans: [], itemsLeft: maxItems, maxDepth };
  const { spans } = state;
  try {
    cursor.space();
    walk(cursor, shape, state);
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

const ANY = Number.POSITIVE_INFINITY;

/** Recursion is as deep as the shape. */
function walk(cursor: JsonCursor, shape: KeptShape | undefined, state: Walk): void {
  const start = cursor.at;
  if (shape === 'kept') {
    cursor.skipValue();
    cursor.deepest = 0;
    state.spans.push({ start, end: cursor.at });
  } else if (shape?.members && cursor.peek() === OPEN_OBJECT) walkMembers(cursor, shape.members, state);
  else if (shape?.items && cursor.peek() === OPEN_ARRAY) walkItems(cursor, shape.items, state);
  else cursor.skipValue();
  if (cursor.deepest > state.maxDepth) throw new TooManyItems();
}

function walkMembers(cursor: JsonCursor, members: Readonly<Record<string, KeptShape>>, state: Walk): void {
  if (isEmpty(cursor, CLOSE_OBJECT)) return;
  for (;;) {
    const name = cursor.key();
    walk(cursor, Object.hasOwn(members, name) ? members[name] : undefined, state);
    if (!hasNext(cursor, CLOSE_OBJECT)) return;
  }
}

function walkItems(cursor: JsonCursor, items: KeptShape, state: Walk): void {
  if (isEmpty(cursor, CLOSE_ARRAY)) return;
  for (;;) {
    if (--state.itemsLeft < 0) throw new TooManyItems();
    walk(cursor, items, state);
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
