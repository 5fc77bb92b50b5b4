import { CLOSE_OBJECT, COMMA, JsonCursor, type Span } from '@weighbridge/dialects';
import { boundOf, readText } from '../../formats/fieldReader.ts';
import { memberCuts } from '../../formats/memberCuts.ts';
import type { RequestBody } from '../../formats/requestBody.ts';
import { CONVERSE_FIELDS } from '../../formats/requestFields/converse.ts';
import { modelSegment } from '../modelSegment.ts';
import type { Invocation } from './invocation.ts';

/** In the path there, or in `inferenceConfig`. */
const ELSEWHERE: ReadonlySet<string> = new Set(['model', 'stream', 'maxTokens', 'inferenceConfig']);
/** Headers that mean something there. The others are of the caller's dialect. */
const KEPT = new Set(['content-type', 'traceparent', 'tracestate', 'user-agent']);

const MODEL = boundOf(CONVERSE_FIELDS, 'model');

/** A request as Bedrock's Converse takes it. The body is the service's own: every request to Converse is translated. */
export function converseCall(headers: readonly string[], body: RequestBody): Invocation {
  const bytes = body.toBuffer();
  const members = membersOf(bytes);
  const text = (name: string) => {
    const span = members.get(name);
    return span && bytes.toString('utf8', span.start, span.end);
  };
  const kept = ['accept-encoding', 'identity'];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (KEPT.has(name)) kept.push(name, headers[at + 1] ?? '');
  }
  const limit = text('maxTokens');
  const settings = [
    ...(limit === undefined ? [] : [`"maxTokens":${limit}`]),
    ...innerOf(text('inferenceConfig')),
  ].join(',');
  const start = bytes.indexOf('{') + 1;
  const edits = memberCuts(bytes, ELSEWHERE).map((span) => ({ span, text: '' }));
  if (settings !== '') {
    edits.push({ span: { start, end: start }, text: `"inferenceConfig":{${settings}},` });
  }
  const modelSpan = members.get('model');
  const model = (modelSpan && readText(bytes, modelSpan, MODEL, 'model')) ?? '';
  const action = text('stream') === 'true' ? 'converse-stream' : 'converse';
  return { path: `/model/${modelSegment(model)}/${action}`, headers: kept, body: body.withEdits(edits) };
}

/** The members of an object as they are written, without its braces. */
function innerOf(object = '{}'): string[] {
  const inner = object.slice(1, -1).trim();
  return inner === '' ? [] : [inner];
}

function membersOf(bytes: Buffer): ReadonlyMap<string, Span> {
  const cursor = new JsonCursor(bytes);
  const members = new Map<string, Span>();
  cursor.space();
  cursor.at++;
  cursor.space();
  while (cursor.peek() !== CLOSE_OBJECT) {
    const name = cursor.key();
    const start = cursor.at;
    cursor.skipValue();
    members.set(name, { start, end: cursor.at });
    cursor.space();
    if (cursor.peek() !== COMMA) break;
    cursor.at++;
    cursor.space();
  }
  return members;
}
