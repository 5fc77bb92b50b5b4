import type { ResponseInputItem } from 'openai/resources/responses/responses';
import { OWNERS } from '../format.ts';
import type { CallPart, Message, Part, Tool } from '../ir/request.ts';
import { parseJson } from '../json/writeJson.ts';
import { type Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { namespacedName } from '../tools/namespaces.ts';
import { readOpaque } from '../wire/seal.ts';
import { readParts } from './readParts.ts';
import { readToolList, readTools } from './readTools.ts';
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
    const read = readItem(item, tools);
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

function readItem(item: Item, found: Tool[]): ReadItem | undefined {
  const { path, context } = item;
  const type = item.text('type') ?? 'message';
  const read = readOwnForm(type, item, found) ?? readKnown(type, item);
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
      return { role: 'assistant', parts: [readCall(item, 'json', argumentsText(item))] };
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

/** Calls of tools that the caller runs, in a form of their own, and their results. The tools that a search found go to `found`. */
function readOwnForm(type: string, item: Item, found: Tool[]): ReadItem | undefined {
  const { path } = item;
  switch (type) {
    case 'local_shell_call': {
      const id = text(item, 'call_id');
      return {
        role: 'assistant',
        parts: [{ kind: 'call', form: 'text', id, name: 'local_shell', input: readCommand(item), path }],
      };
    }
    case 'local_shell_call_output': {
      const id = item.text('call_id' as never) ?? item.need('id', item.text('id')) ?? '';
      const output: Part = { kind: 'text', text: text(item, 'output'), path: item.at('output') };
      return { role: 'user', parts: [{ kind: 'result', id, failed: false, parts: [output], path }] };
    }
    case 'tool_search_call': {
      if (item.take('execution') !== 'client') return undefined;
      const input = item.json('arguments') ?? '{}';
      const id = text(item, 'call_id');
      return {
        role: 'assistant',
        parts: [{ kind: 'call', form: 'json', id, name: 'tool_search', input, path }],
      };
    }
    case 'tool_search_output': {
      if (item.take('execution') !== 'client') return undefined;
      const tools = readToolList(item.list('tools') ?? [], item.at('tools'), undefined, item);
      found.push(...tools);
      const names = tools.map(({ name }) => name).join(', ');
      const said = names === '' ? 'No tool was found.' : `These tools can be called now: ${names}`;
      const parts: Part[] = [{ kind: 'text', text: said, path: item.at('tools') }];
      return {
        role: 'user',
        parts: [{ kind: 'result', id: text(item, 'call_id'), failed: false, parts, path }],
      };
    }
    default:
      return undefined;
  }
}

interface ActionWire {
  readonly type?: string;
  readonly command?: unknown;
  readonly timeout_ms?: unknown;
  readonly working_directory?: unknown;
  readonly user?: unknown;
  readonly env?: unknown;
}

/** The text that a shell ran; another command as the list that it is. */
function readCommand(item: Item): string {
  const action = item.object<ActionWire>('action' as never);
  item.need('action' as never, action);
  if (!action) return '';
  action.take('type');
  for (const name of ['timeout_ms', 'working_directory', 'user'] as const)
    action.drop(name, 'it has no counterpart');
  if (Object.keys((action.take('env') as object | undefined) ?? {}).length > 0) {
    item.context.losses.add(action.at('env'), 'dropped', 'it has no counterpart');
  }
  const command = action.need('command', action.texts('command')) ?? [];
  action.end();
  const [shell, flag, script, ...others] = command;
  const isScript = shell === 'bash' && flag === '-lc' && script !== undefined && others.length === 0;
  return isScript ? script : JSON.stringify(command);
}

/** The arguments of a function are a text; a search of tools has an object there, so they are kept as they were written. */
function argumentsText(item: Item): string {
  const written = item.json('arguments' as never);
  const value = written === undefined ? undefined : parseJson(written);
  if (typeof value === 'string') return value;
  item.context.losses.add(
    item.at('arguments'),
    'refused',
    written === undefined ? 'is required' : 'expected a string',
  );
  return '';
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
