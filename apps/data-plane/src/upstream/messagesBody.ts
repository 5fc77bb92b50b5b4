import { CLOSE_OBJECT, COMMA, JsonCursor } from '@weighbridge/dialects';
import { boundOf, readText } from '../formats/fieldReader.ts';
import { memberCuts } from '../formats/memberCuts.ts';
import type { Edit, RequestBody } from '../formats/requestBody.ts';
import { MESSAGES_FIELDS } from '../formats/requestFields/messages.ts';

/** A body of Anthropic's Messages API, as a cloud takes it: nearly byte for byte. */
export interface CloudMessages {
  readonly model: string;
  readonly isStreamed: boolean;
  readonly body: RequestBody;
}

/** Without the members that go elsewhere there, and with others before the rest (`"name":value,`). */
export function messagesBody(
  body: RequestBody,
  elsewhere: ReadonlySet<string>,
  added: string,
): CloudMessages {
  const bytes = body.toBuffer();
  const edits: Edit[] = memberCuts(bytes, elsewhere).map((span) => ({ span, text: '' }));
  const start = bytes.indexOf('{') + 1;
  edits.push({ span: { start, end: start }, text: added });
  return { ...membersOf(bytes), body: body.withEdits(edits) };
}

const MODEL = boundOf(MESSAGES_FIELDS, 'model');
const LOWER_T = 0x74;

/** What the body says of the members that go elsewhere. It was checked before: it is an object, and names each once. */
function membersOf(bytes: Buffer): { model: string; isStreamed: boolean } {
  const cursor = new JsonCursor(bytes);
  let model = '';
  let isStreamed = false;
  cursor.space();
  cursor.at++;
  cursor.space();
  while (cursor.peek() !== CLOSE_OBJECT) {
    const name = cursor.key();
    const start = cursor.at;
    cursor.skipValue();
    // It is the vendor's name by now.
    if (name === 'model') model = readText(bytes, { start, end: cursor.at }, MODEL, name) ?? '';
    if (name === 'stream') isStreamed = bytes[start] === LOWER_T;
    cursor.space();
    if (cursor.peek() !== COMMA) break;
    cursor.at++;
    cursor.space();
  }
  return { model, isStreamed };
}

/** The betas that `anthropic-beta` headers name, as a cloud calls those that it takes. */
export function betasAt(cloud: ReadonlyMap<string, string>, headers: readonly string[]): string[] {
  const asked = headers.flatMap((value) => value.split(',')).map((name) => name.trim());
  return [...new Set(asked.flatMap((name) => cloud.get(name) ?? []))];
}
