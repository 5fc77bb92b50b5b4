import { EARLIER_CITATIONS } from '../citations/source.ts';
import { readContentParts, readTypedPart } from '../conversation/contentParts.ts';
import { OWNERS } from '../format.ts';
import type { CacheMark, MediaSource, Message, Part } from '../ir/request.ts';
import { type Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { mediaOfType, readDataUrl } from '../wire/dataUrl.ts';
import { readOpaques } from '../wire/seal.ts';
import type { CallWire, ChatBody, MessageWire, PartWire, ReasoningMembers } from './wire.ts';

type MessageFields = Fields<MessageWire>;
type PartFields = Fields<PartWire>;

/** The conversation in `messages`: the results of tools that follow each other are one message. */
export function readMessages(body: Fields<ChatBody>): Message[] {
  const list = body.need('messages', body.list('messages')) ?? [];
  const messages: { role: Message['role']; parts: Part[] }[] = [];
  for (let index = 0; index < list.length; index++) {
    const fields = fieldsOf<MessageWire>(list[index], `messages.${index}`, body.context);
    const read = fields && readMessage(fields);
    if (!read) continue;
    const last = messages.at(-1);
    const isResult = read.parts[0]?.kind === 'result';
    if (isResult && last?.parts[0]?.kind === 'result') last.parts.push(...read.parts);
    else messages.push(read);
  }
  return messages;
}

function readMessage(fields: MessageFields): { role: Message['role']; parts: Part[] } {
  const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'] as const;
  const role = fields.need('role', fields.word('role', roles)) ?? 'user';
  fields.drop('name', 'messages have no name');
  const parts = role === 'assistant' ? readAssistant(fields) : readOther(fields, role);
  fields.end();
  if (role === 'assistant') return { role, parts };
  return { role: role === 'system' || role === 'developer' ? 'instruction' : 'user', parts };
}

function readOther(fields: MessageFields, role: string): Part[] {
  const { path, context } = fields;
  const content = fields.need('content', fields.take('content'));
  const parts = readContent(content ?? [], fields.at('content'), context);
  if (role === 'function') context.losses.add(path, 'refused', 'use a message of role tool');
  if (role !== 'tool') return parts;
  const id = fields.need('tool_call_id', fields.text('tool_call_id')) ?? '';
  return [{ kind: 'result', id, failed: false, parts, path }];
}

/** Reasoning comes first, then what was said, then calls: the format has no other order. */
function readAssistant(fields: MessageFields): Part[] {
  const { path, context } = fields;
  const reasoning = fields as unknown as Fields<ReasoningMembers>;
  const thought = reasoning.text('reasoning_content') ?? reasoning.text('reasoning');
  const parts: Part[] = [];
  if (thought) parts.push({ kind: 'reasoning', text: thought, path: fields.at('reasoning_content') });
  const content = fields.take('content');
  if (content !== undefined) parts.push(...readContent(content, fields.at('content'), context));
  const refusal = fields.text('refusal');
  if (refusal) parts.push({ kind: 'refusal', text: refusal, path: fields.at('refusal') });
  fields.drop('annotations' as never, EARLIER_CITATIONS);
  fields.refuse('audio', 'the audio is at its vendor');
  fields.refuse('function_call', 'use tool_calls');
  const calls = fields.list('tool_calls') ?? [];
  for (let index = 0; index < calls.length; index++) {
    const call = fieldsOf<CallWire>(calls[index], `${path}.tool_calls.${index}`, context);
    if (call) parts.push(...readCall(call));
  }
  return parts;
}

function readCall(call: Fields<CallWire>): Part[] {
  const { path, context } = call;
  call.take('index');
  const parts: Part[] = readSignature(call);
  const id = call.need('id', call.text('id')) ?? '';
  const isCustom = call.word('type', ['function', 'custom']) === 'custom';
  const named = call.object<{ name?: string; arguments?: string; input?: string }>(
    isCustom ? 'custom' : 'function',
  );
  if (named) {
    const name = named.need('name', named.text('name')) ?? '';
    const member = isCustom ? 'input' : 'arguments';
    const input = named.need(member, named.text(member)) ?? '';
    named.end();
    parts.push({ kind: 'call', form: isCustom ? 'text' : 'json', id, name, input, path });
  } else context.losses.add(path, 'refused', 'the call has no function');
  call.end();
  return parts;
}

/** Ours, or one of Gemini's models that were reached by chat completions. */
function readSignature(call: Fields<CallWire>): Part[] {
  const extra = call.object<NonNullable<CallWire['extra_content']>>('extra_content');
  const google = extra?.object<{ thought_signature?: string }>('google');
  const value = google?.text('thought_signature');
  google?.end();
  extra?.end();
  if (!value) return [];
  const path = `${call.path}.extra_content`;
  return readOpaques(value, OWNERS.gemini, 'thought').map((opaque) => ({
    kind: 'reasoning',
    text: '',
    opaque,
    path,
  }));
}

function readContent(content: unknown, path: string, context: ReadContext): Part[] {
  return readContentParts<PartWire>(content, path, context, (fields) =>
    readTypedPart(fields, fields.need('type', fields.text('type')) ?? '', readKnown),
  );
}

function readKnown(type: string, fields: PartFields): Part | undefined {
  const { path } = fields;
  switch (type) {
    case 'text':
      return {
        kind: 'text',
        text: fields.need('text', fields.text('text')) ?? '',
        path,
        cache: readMark(fields),
      };
    case 'refusal':
      return { kind: 'refusal', text: fields.need('refusal', fields.text('refusal')) ?? '', path };
    case 'image_url': {
      const image = fields.object<{ url?: string; detail?: string }>('image_url');
      const url = image?.text('url');
      const detail = image?.text('detail');
      image?.end();
      if (url === undefined) return undefined;
      const source = readDataUrl(url) ?? { from: 'url' as const, url };
      return {
        kind: 'media',
        media: 'image',
        source,
        detail: detail === 'auto' ? undefined : detail,
        path,
        cache: readMark(fields),
      };
    }
    case 'input_audio':
      return readAudio(fields);
    case 'file':
      return readFile(fields);
    default:
      return undefined;
  }
}

/** A mark of Anthropic's, which callers of its models by chat completions send. */
function readMark(fields: PartFields): CacheMark | undefined {
  const mark = fields.object<{ type?: string; ttl?: string }>('cache_control');
  mark?.word('type', ['ephemeral']);
  const ttl = mark?.word('ttl', ['5m', '1h'] as const);
  mark?.end();
  return mark && { ttl };
}

function readAudio(fields: PartFields): Part | undefined {
  const audio = fields.object<{ data?: string; format?: string }>('input_audio');
  const data = audio?.text('data');
  const format = audio?.text('format');
  audio?.end();
  if (data === undefined || format === undefined) return undefined;
  const source: MediaSource = { from: 'base64', type: `audio/${format}`, data };
  return { kind: 'media', media: 'audio', source, path: fields.path };
}

function readFile(fields: PartFields): Part | undefined {
  const file = fields.object<{ file_data?: string; file_id?: string; filename?: string }>('file');
  const data = file?.text('file_data');
  const id = file?.text('file_id');
  const name = file?.text('filename');
  file?.end();
  const source: MediaSource | undefined =
    id !== undefined
      ? { from: 'file', owner: OWNERS.chat, id }
      : data === undefined
        ? undefined
        : readDataUrl(data);
  if (!source) return undefined;
  const media = source.from === 'base64' ? mediaOfType(source.type) : 'document';
  return { kind: 'media', media, source, name, path: fields.path, cache: readMark(fields) };
}
