import { CLOSE_OBJECT, COMMA, JsonCursor, OPEN_ARRAY, QUOTE, type Span } from '../json/jsonCursor.ts';

/** Members that a continued request says in other words. */
const REPLACED: ReadonlySet<string> = new Set(['input', 'previous_response_id']);
const BETWEEN = Buffer.from(',');

/** The items of a request's `input` as they were written, with commas between them; empty if there are none. The body is a JSON object. */
export function inputItems(body: Buffer): Buffer {
  const { input } = membersOf(body);
  return input ? itemsOf(body.subarray(input.start, input.end)) : Buffer.alloc(0);
}

/** The request that says the whole conversation in place of naming the response that it continues. `earlier`: its items. */
export function continuedRequest(body: Buffer, earlier: Buffer): Buffer {
  const { input, others } = membersOf(body);
  const items = [earlier, input ? itemsOf(body.subarray(input.start, input.end)) : earlier.subarray(0, 0)];
  const kept = others.flatMap(({ start, end }) => [body.subarray(start, end), BETWEEN]);
  return Buffer.concat([
    Buffer.from('{'),
    ...kept,
    Buffer.from('"input":['),
    ...joined(items),
    Buffer.from(']}'),
  ]);
}

export function joinItems(...lists: readonly Buffer[]): Buffer {
  return Buffer.concat(joined(lists));
}

function joined(lists: readonly Buffer[]): Buffer[] {
  return lists
    .filter(({ length }) => length > 0)
    .flatMap((items, at) => (at === 0 ? [items] : [BETWEEN, items]));
}

function itemsOf(value: Buffer): Buffer {
  if (value[0] === QUOTE)
    return Buffer.concat([Buffer.from('{"role":"user","content":'), value, Buffer.from('}')]);
  // What is neither is refused when the request is read.
  return value[0] === OPEN_ARRAY ? trimmed(value.subarray(1, -1)) : value;
}

function trimmed(bytes: Buffer): Buffer {
  let start = 0;
  let end = bytes.length;
  while (start < end && isSpace(bytes[start])) start++;
  while (end > start && isSpace(bytes[end - 1])) end--;
  return bytes.subarray(start, end);
}

function isSpace(byte = 0): boolean {
  return byte <= 0x20;
}

interface Members {
  /** The value of the last one. */
  readonly input: Span | undefined;
  /** Runs of members that stay as they are: from the first key to the end of the last value. */
  readonly others: readonly Span[];
}

function membersOf(body: Buffer): Members {
  const cursor = new JsonCursor(body);
  const others: { start: number; end: number }[] = [];
  let input: Span | undefined;
  let isRun = false;
  cursor.space();
  cursor.at++;
  cursor.space();
  while (cursor.peek() !== CLOSE_OBJECT) {
    const start = cursor.at;
    const name = cursor.key();
    const valueAt = cursor.at;
    cursor.skipValue();
    const end = cursor.at;
    if (name === 'input') input = { start: valueAt, end };
    const last = others.at(-1);
    if (REPLACED.has(name)) isRun = false;
    else if (isRun && last) last.end = end;
    else {
      others.push({ start, end });
      isRun = true;
    }
    cursor.space();
    if (cursor.peek() !== COMMA) break;
    cursor.at++;
    cursor.space();
  }
  return { input, others };
}
