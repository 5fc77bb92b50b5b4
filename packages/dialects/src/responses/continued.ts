import { CLOSE_OBJECT, COMMA, JsonCursor, OPEN_ARRAY, QUOTE } from '../json/jsonCursor.ts';

/** Members that a continued request says in other words. */
const REPLACED: ReadonlySet<string> = new Set(['input', 'previous_response_id']);

interface Member {
  readonly name: string;
  /** From its key to the end of its value. */
  readonly text: string;
  readonly value: string;
}

/** The items of a request's `input` as they were written, with commas between them; empty if there are none. The body is a JSON object. */
export function inputItems(body: Uint8Array): string {
  const input = membersOf(body).findLast(({ name }) => name === 'input');
  return input ? itemsOf(input.value) : '';
}

/** The request that says the whole conversation in place of naming the response that it continues. `earlier`: its items. */
export function continuedRequest(body: Uint8Array, earlier: string): Buffer {
  const members = membersOf(body);
  const input = members.findLast(({ name }) => name === 'input');
  const items = joinItems(earlier, input ? itemsOf(input.value) : '');
  const others = members.filter(({ name }) => !REPLACED.has(name)).map(({ text }) => text);
  return Buffer.from(`{${[...others, `"input":[${items}]`].join(',')}}`);
}

export function joinItems(...lists: readonly string[]): string {
  return lists.filter((items) => items !== '').join(',');
}

function itemsOf(value: string): string {
  const first = value.charCodeAt(0);
  if (first === QUOTE) return `{"role":"user","content":${value}}`;
  // What is neither is refused when the request is read.
  return first === OPEN_ARRAY ? value.slice(1, -1).trim() : value;
}

function membersOf(body: Uint8Array): Member[] {
  const cursor = new JsonCursor(body);
  const members: Member[] = [];
  cursor.space();
  cursor.at++;
  cursor.space();
  while (cursor.peek() !== CLOSE_OBJECT) {
    const start = cursor.at;
    const name = cursor.key();
    const valueAt = cursor.at;
    cursor.skipValue();
    const text = cursor.bytes.toString('utf8', start, cursor.at);
    members.push({ name, text, value: cursor.bytes.toString('utf8', valueAt, cursor.at) });
    cursor.space();
    if (cursor.peek() !== COMMA) break;
    cursor.at++;
    cursor.space();
  }
  return members;
}
