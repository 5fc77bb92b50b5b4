import type {
  ChatCompletionCustomTool,
  ChatCompletionFunctionTool,
} from 'openai/resources/chat/completions/completions';
import type { Tool } from '../ir/request.ts';
import { type Fields, fieldsOf } from '../loss/fields.ts';
import { readMark } from './readParts.ts';
import type { ChatBody, Marked, ToolWire } from './wire.ts';

export function readTools(body: Fields<ChatBody>): Tool[] {
  const list = body.list('tools') ?? [];
  return list.flatMap((value, index) => {
    const fields = fieldsOf<ToolWire>(value, `tools.${index}`, body.context);
    return fields ? readTool(fields) : [];
  });
}

function readTool(fields: Fields<ToolWire>): Tool[] {
  const { path, context } = fields;
  const type = fields.need('type', fields.text('type')) ?? '';
  const tool =
    type === 'function' ? readFunction(fields) : type === 'custom' ? readCustom(fields) : undefined;
  if (!tool)
    context.losses.add(path, 'refused', `a tool of type ${type.slice(0, 40)} has no counterpart, or no name`);
  fields.end();
  return tool ? [tool] : [];
}

function readFunction(fields: Fields<ToolWire>): Tool | undefined {
  const wire = fields.object<ChatCompletionFunctionTool['function']>('function');
  if (!wire) return undefined;
  const tool: Tool = {
    kind: 'function',
    path: fields.path,
    name: wire.need('name', wire.text('name')) ?? '',
    description: wire.text('description'),
    schema: wire.json('parameters'),
    strict: wire.flag('strict'),
    cache: readMark(fields) ?? readMark(wire as unknown as Fields<Marked>),
  };
  wire.end();
  return tool;
}

interface GrammarWire {
  readonly type?: string;
  readonly grammar?: unknown;
}

function readCustom(fields: Fields<ToolWire>): Tool | undefined {
  const wire = fields.object<ChatCompletionCustomTool['custom']>('custom');
  if (!wire) return undefined;
  const format = wire.object<GrammarWire>('format');
  format?.word('type', ['text', 'grammar']);
  const grammar = format?.object<{ syntax?: string; definition?: string }>('grammar');
  const tool: Tool = {
    kind: 'freeform',
    path: fields.path,
    name: wire.need('name', wire.text('name')) ?? '',
    description: wire.text('description'),
    syntax: grammar?.text('syntax'),
    grammar: grammar?.need('definition', grammar.text('definition')),
  };
  grammar?.end();
  format?.end();
  wire.end();
  return tool;
}
