import { EARLIER_CITATIONS } from '../citations/source.ts';
import type { CacheMark, Message, Part, ReasoningPart } from '../ir/request.ts';
import { type Fields, fieldsOf } from '../loss/fields.ts';
import { readContent, readMark } from './readParts.ts';
import { type MessageReasoning, readReasoning, readSignatures } from './readReasoning.ts';
import type { CallWire, ChatBody, MessageWire, ReasoningMembers } from './wire.ts';

type MessageFields = Fields<MessageWire>;

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
  const read = role === 'assistant' ? readAssistant(fields) : readOther(fields, role);
  const parts = markLast(read, readMark(fields), fields);
  fields.end();
  if (role === 'assistant') return { role, parts };
  return { role: role === 'system' || role === 'developer' ? 'instruction' : 'user', parts };
}

/** The mark of a message is one of its end. */
function markLast(parts: Part[], cache: CacheMark | undefined, { context, path }: MessageFields): Part[] {
  const last = parts.at(-1);
  if (!cache) return parts;
  if (last && !last.cache) return [...parts.slice(0, -1), { ...last, cache }];
  context.losses.add(cache.path ?? path, 'dropped', 'the message ends with a mark, or is empty');
  return parts;
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

/** Reasoning comes first, then what was said, then calls, but for what belongs to one of them: the format has no other order. */
function readAssistant(fields: MessageFields): Part[] {
  const { path, context } = fields;
  const calls = fields.list('tool_calls') ?? [];
  const reasoning = readReasoning(fields as unknown as Fields<ReasoningMembers>, calls);
  const parts: Part[] = [...reasoning.first];
  const content = fields.take('content');
  if (content !== undefined) parts.push(...readContent(content, fields.at('content'), context));
  const refusal = fields.text('refusal');
  if (refusal) parts.push({ kind: 'refusal', text: refusal, path: fields.at('refusal') });
  fields.drop('annotations' as never, EARLIER_CITATIONS);
  fields.refuse('audio', 'the audio is at its vendor');
  fields.refuse('function_call', 'use tool_calls');
  for (let index = 0; index < calls.length; index++) {
    const call = fieldsOf<CallWire>(calls[index], `${path}.tool_calls.${index}`, context);
    if (!call) continue;
    const signed = readSignatures(call, reasoning);
    // Others than Gemini's models reason before they say anything.
    const isFirst = ({ opaque }: ReasoningPart) => index === 0 && opaque?.kind !== 'thought';
    parts.unshift(...signed.filter(isFirst));
    parts.push(...signed.filter((part) => !isFirst(part)), ...readCall(call, reasoning));
  }
  return parts;
}

function readCall(call: Fields<CallWire>, { ofCalls }: MessageReasoning): Part[] {
  const { path, context } = call;
  call.take('index');
  const id = call.need('id', call.text('id')) ?? '';
  const parts: Part[] = [...(ofCalls.get(id) ?? [])];
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
