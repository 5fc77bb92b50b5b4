import { OWNERS } from '../format.ts';
import type { CallPart, JsonText, MediaSource, Message, Part } from '../ir/request.ts';
import { parseJson } from '../json/writeJson.ts';
import { type Fields, isRecord } from '../loss/fields.ts';
import { mediaOfType } from '../wire/dataUrl.ts';
import { ENVELOPE_PREFIX, readOpaques } from '../wire/seal.ts';
import { UnansweredCalls } from './unansweredCalls.ts';
import {
  type Content,
  decodeSignature,
  type FunctionCall,
  type FunctionResponse,
  type GeminiBody,
  geminiFields,
  type PartWire,
} from './wire.ts';

type PartFields = Fields<PartWire>;

/** The conversation in `contents`. */
export function readContents(body: Fields<GeminiBody>): Message[] {
  const list = body.need('contents', body.list('contents')) ?? [];
  const messages: Message[] = [];
  // Calls may have no id: then results answer them by their name, in order.
  const unanswered = new UnansweredCalls();
  for (let index = 0; index < list.length; index++) {
    const content = geminiFields<Content>(list[index], `contents.${index}`, body.context);
    if (!content) continue;
    const role = content.word('role', ['user', 'model', 'function'] as const);
    const parts = readParts(content, unanswered);
    content.end();
    messages.push({ role: role === 'model' ? 'assistant' : 'user', parts });
  }
  return messages;
}

export function readParts(content: Fields<Content>, unanswered: UnansweredCalls): Part[] {
  const list = content.list('parts') ?? [];
  const parts: Part[] = [];
  for (let index = 0; index < list.length; index++) {
    const fields = geminiFields<PartWire>(list[index], `${content.path}.parts.${index}`, content.context);
    if (fields) parts.push(...readPart(fields, unanswered));
  }
  return parts;
}

/** A signature belongs to the part that has it: it is read as reasoning before it. */
function readPart(fields: PartFields, unanswered: UnansweredCalls): Part[] {
  const { path, context } = fields;
  const isThought = fields.flag('thought') ?? false;
  const signature = fields.text('thoughtSignature');
  const opaques = signature
    ? readOpaques(decodeSignature(signature, ENVELOPE_PREFIX), OWNERS.gemini, 'thought')
    : [];
  const signed = opaques.map((opaque): Part => {
    return { kind: 'reasoning', text: '', opaque, path: fields.at('thoughtSignature') };
  });
  for (const name of ['videoMetadata', 'mediaResolution', 'partMetadata', 'mediaProcessing'] as const) {
    fields.drop(name, 'it has no counterpart');
  }
  const text = fields.text('text');
  if (text !== undefined) {
    fields.end();
    if (isThought) return [...signed, { kind: 'reasoning', text, path }];
    return text === '' && signed.length > 0 ? signed : [...signed, { kind: 'text', text, path }];
  }
  const part = readData(fields, unanswered);
  if (part) signed.push(part);
  else if (fields.has('executableCode') || fields.has('codeExecutionResult')) {
    context.losses.add(path, 'dropped', 'it belongs to a tool that another vendor ran');
    return signed;
  } else if (signed.length === 0) context.losses.add(path, 'refused', 'the part has no counterpart');
  fields.end();
  return signed;
}

function readData(fields: PartFields, unanswered: UnansweredCalls): Part | undefined {
  const { context } = fields;
  const member = <Wire extends object>(name: Parameters<PartFields['take']>[0]) => {
    const value = fields.take(name);
    return value === undefined ? undefined : geminiFields<Wire>(value, fields.at(name), context);
  };
  const call = member<FunctionCall>('functionCall');
  if (call) return readCall(call, fields.path, unanswered);
  const response = member<FunctionResponse>('functionResponse');
  if (response) return readResponse(response, fields.path, unanswered);
  return readMediaOf(fields);
}

/** A part of a result, which can't have calls or results in turn. */
function readMedia(fields: PartFields): Part[] {
  const part = readMediaOf(fields);
  if (!part) fields.context.losses.add(fields.path, 'refused', 'the part has no counterpart');
  fields.end();
  return part ? [part] : [];
}

function readMediaOf(fields: PartFields): Part | undefined {
  const { context } = fields;
  const member = <Wire extends object>(name: Parameters<PartFields['take']>[0]) => {
    const value = fields.take(name);
    return value === undefined ? undefined : geminiFields<Wire>(value, fields.at(name), context);
  };
  const inline = member<{ mimeType?: string; data?: string; displayName?: string }>('inlineData');
  if (inline) {
    const type = inline.need('mimeType', inline.text('mimeType')) ?? '';
    const data = inline.need('data', inline.text('data')) ?? '';
    const name = inline.text('displayName');
    inline.end();
    return {
      kind: 'media',
      media: mediaOfType(type),
      source: { from: 'base64', type, data },
      name,
      path: fields.path,
    };
  }
  const file = member<{ mimeType?: string; fileUri?: string; displayName?: string }>('fileData');
  return file && readFile(file, fields.path);
}

function readCall(call: Fields<FunctionCall>, path: string, unanswered: UnansweredCalls): Part {
  const name = call.need('name', call.text('name')) ?? '';
  // The place in the conversation is the same in each turn, and so is the id.
  const id = call.text('id') || `call_${path.replace(/[^0-9]+/g, '_')}`;
  const part: CallPart = { kind: 'call', form: 'json', id, name, input: call.json('args') ?? '{}', path };
  call.drop('partialArgs', 'arguments are sent whole');
  call.drop('willContinue', 'arguments are sent whole');
  call.end();
  unanswered.add(part);
  return part;
}

function readResponse(fields: Fields<FunctionResponse>, path: string, unanswered: UnansweredCalls): Part {
  const name = fields.text('name') ?? '';
  const id = fields.text('id') || undefined;
  const call = unanswered.take(id, name);
  if (call && name !== '' && name !== call.name)
    fields.change('name', 'the call with its id has another name');
  const response = fields.json('response');
  fields.need('response', response);
  fields.drop('scheduling', 'calls block');
  fields.drop('willContinue', 'results are sent whole');
  const inner = fields.list('parts') ?? [];
  const media = inner.flatMap((value, at) => {
    const part = geminiFields<PartWire>(value, `${path}.functionResponse.parts.${at}`, fields.context);
    return part ? readMedia(part) : [];
  });
  fields.end();
  const { text, failed } = readResult(response);
  const textPart: Part = { kind: 'text', text, path: `${path}.functionResponse.response` };
  return {
    kind: 'result',
    id: call?.id ?? id ?? `unknown_${name}`,
    failed,
    parts: [textPart, ...media],
    path,
  };
}

/** `output` and `error` are the members that the API names; other results are told as they are. */
function readResult(response: JsonText | undefined): { readonly text: string; readonly failed: boolean } {
  const value = response && parseJson(response);
  if (isRecord(value) && Object.keys(value).length === 1) {
    if (typeof value.output === 'string') return { text: value.output, failed: false };
    if (typeof value.error === 'string') return { text: value.error, failed: true };
  }
  return { text: response ?? '', failed: false };
}

/** Files of the vendor's own, which no one else can read. */
const OWN_FILE = /^(gs:\/\/|https:\/\/generativelanguage\.googleapis\.com\/|files\/)/;

function readFile(
  file: Fields<{ mimeType?: string; fileUri?: string; displayName?: string }>,
  path: string,
): Part {
  const type = file.text('mimeType') ?? '';
  const url = file.need('fileUri', file.text('fileUri')) ?? '';
  const name = file.text('displayName');
  file.end();
  const source: MediaSource = OWN_FILE.test(url)
    ? { from: 'file', owner: OWNERS.gemini, id: url }
    : { from: 'url', url, type };
  return { kind: 'media', media: mediaOfType(type), source, name, path };
}
