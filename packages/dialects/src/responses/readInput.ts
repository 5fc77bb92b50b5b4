import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { OWNERS } from '../format.ts';
import type { CallPart, Message, Part, Tool } from '../ir/request.ts';
import { type Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { namespacedName } from '../tools/namespaces.ts';
import { readOpaque } from '../wire/seal.ts';
import { readParts } from './readParts.ts';
import { readTools } from './readTools.ts';
import type { ResponsesBody } from './wire.ts';

type ItemWire = ResponseInputItem;
type Item = Fields<ItemWire>;

/** Items of tools that the vendor ran. */
const HOSTED_ITEMS: ReadonlySet<string> = new Set([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'tool_search_call',
  'tool_search_output',
]);

interface ReadItem {
  readonly role: Message['role'];
  readonly parts: readonly Part[];
}

/**
 * The conversation in `input`: items of the same role that follow each other are one message. `tools` gets those that its items
 * bring.
 */
export function readInput(body: Fields<ResponsesBody>, tools: Tool[]): Message[] {
  const input = body.need('input', body.take('input'));
  if (typeof input === 'string') {
    return [{ role: 'user', parts: [{ kind: 'text', text: input, path: 'input' }] }];
  }
  if (!Array.isArray(input)) {
    if (input !== undefined) body.context.losses.add('input', 'refused', 'expected a string or an array');
    return [];
  }
  const messages: { role: Message['role']; parts: Part[] }[] = [];
  for (let index = 0; index < input.length; index++) {
    const item = fieldsOf<ItemWire>(input[index], `input.${index}`, body.context);
    if (!item) continue;
    if (item.text('type') === 'additional_tools') {
      if (messages.length > 0) item.change('tools', 'they are there from the beginning');
      tools.push(...readAdditionalTools(item));
      continue;
    }
    const read = readItem(item);
    if (!read) continue;
    const last = messages.at(-1);
    if (last?.role === read.role) for (const part of read.parts) last.parts.push(part);
    else messages.push({ role: read.role, parts: [...read.parts] });
  }
  return messages;
}

/** Codex sends the tools of its own models so. */
function readAdditionalTools(item: Item): Tool[] {
  item.take('id');
  item.take('role');
  const tools = readTools(item as unknown as Fields<ResponsesBody>);
  item.end();
  return tools;
}

function readItem(item: Item): ReadItem | undefined {
  const { path, context } = item;
  const type = item.text('type') ?? 'message';
  const read = readKnown(type, item);
  if (!read) {
    if (HOSTED_ITEMS.has(type))
      context.losses.add(path, 'dropped', 'it belongs to a tool that another vendor ran');
    else context.losses.add(path, 'refused', `an item of type ${type.slice(0, 40)} has no counterpart`);
    return undefined;
  }
  // They say nothing that the model is told.
  item.take('id' as never);
  item.take('status' as never);
  item.end();
  return read;
}

function readKnown(type: string, item: Item): ReadItem | undefined {
  switch (type) {
    case 'message':
      return readMessage(item);
    case 'function_call':
      return { role: 'assistant', parts: [readCall(item, 'json', text(item, 'arguments'))] };
    case 'custom_tool_call':
      return { role: 'assistant', parts: [readCall(item, 'text', text(item, 'input'))] };
    case 'function_call_output':
    case 'custom_tool_call_output':
      return { role: 'user', parts: [readOutput(item)] };
    case 'reasoning':
      return { role: 'assistant', parts: [readReasoning(item)] };
    default:
      return undefined;
  }
}

function text(item: Item, name: Parameters<Item['text']>[0]): string {
  return item.need(name, item.text(name)) ?? '';
}

function readMessage(item: Item): ReadItem {
  const roles = ['user', 'assistant', 'system', 'developer'] as const;
  const role = item.need('role', item.word('role', roles));
  const content = item.need('content', item.take('content'));
  item.drop('phase', 'it has no counterpart');
  const parts = readParts(content ?? [], item.at('content'), item.context);
  if (role === 'assistant') return { role, parts };
  return { role: role === 'user' || role === undefined ? 'user' : 'instruction', parts };
}

function readCall(item: Item, form: CallPart['form'], input: string): CallPart {
  const namespace = item.text('namespace');
  item.drop('caller' as never, 'only its vendor has it');
  const name = namespacedName(namespace, text(item, 'name'));
  return { kind: 'call', form, id: text(item, 'call_id'), name, input, path: item.path };
}

function readOutput(item: Item): Part {
  const id = text(item, 'call_id');
  const output = item.need('output', item.take('output'));
  const parts = readParts(output ?? [], item.at('output'), item.context);
  return { kind: 'result', id, failed: false, parts, path: item.path };
}

interface SummaryWire {
  readonly type?: string;
  readonly text?: string;
}

function readReasoning(item: Item): Part {
  const { path, context } = item;
  const value = item.text('encrypted_content');
  const summary = joinSummary(item.list('summary') ?? [], item.at('summary'), context);
  const content = joinSummary(item.list('content') ?? [], item.at('content'), context);
  const opaque = value ? readOpaque(value, OWNERS.responses, 'encrypted') : undefined;
  return { kind: 'reasoning', text: content === '' ? summary : content, opaque, path };
}

function joinSummary(list: readonly unknown[], path: string, context: ReadContext): string {
  const texts = list.map((value, index) => {
    const fields = fieldsOf<SummaryWire>(value, `${path}.${index}`, context);
    fields?.take('type');
    const one = fields?.text('text') ?? '';
    fields?.end();
    return one;
  });
  return texts.join('\n\n');
}
