import type {
  CustomTool,
  FunctionTool as FunctionWire,
  NamespaceTool,
  WebSearchPreviewTool,
  WebSearchTool,
} from 'openai/resources/responses/responses';
import type { Tool } from '../ir/request.ts';
import { type Fields, fieldsOf, type ReadContext } from '../loss/fields.ts';
import { FREEFORM_SCHEMA } from '../tools/freeform.ts';
import { hostedService, OWN_SETTING } from '../tools/hosted.ts';
import { namespacedName } from '../tools/namespaces.ts';
import type { ResponsesBody } from './wire.ts';

type ToolWire = FunctionWire | NamespaceTool | CustomTool | { readonly defer_loading?: boolean };

/** The tools of a body, or of an item that brings some. */
export function readTools(body: Fields<ResponsesBody>): Tool[] {
  return readToolList(body.list('tools') ?? [], body.at('tools'), undefined, body);
}

export function readToolList(
  list: readonly unknown[],
  path: string,
  namespace: string | undefined,
  { context }: { readonly context: ReadContext },
): Tool[] {
  return list.flatMap((value, index) => {
    const fields = fieldsOf<ToolWire>(value, `${path}.${index}`, context);
    return fields ? readTool(fields, namespace) : [];
  });
}

function readTool(fields: Fields<ToolWire>, namespace: string | undefined): Tool[] {
  const { path, context } = fields;
  const type = fields.need('type', fields.text('type')) ?? '';
  if (type === 'namespace' && namespace === undefined) return readNamespace(fields);
  const own = namespace === undefined ? readOwnForm(type, fields) : undefined;
  if (own) return [own];
  if (type !== 'function' && type !== 'custom') {
    const service = hostedService(type);
    if (!service)
      context.losses.add(path, 'refused', `a tool of type ${type.slice(0, 40)} has no counterpart`);
    else endHosted(fields as unknown as Fields<WebSearchTool | WebSearchPreviewTool>);
    return service ? [{ kind: 'hosted', path, name: type, service }] : [];
  }
  const name = namespacedName(namespace, fields.need('name', fields.text('name')) ?? '');
  const description = fields.text('description');
  if (type === 'custom') return [{ ...readCustom(fields, name, description), namespace }];
  const tool: Tool = {
    kind: 'function',
    path,
    name,
    namespace,
    description,
    schema: fields.json('parameters'),
    strict: fields.flag('strict'),
    // Its search runs at the vendor, so nothing would load it elsewhere.
    deferred: undefined,
  };
  if (fields.flag('defer_loading')) fields.change('defer_loading', 'the tool is sent at once');
  fields.end();
  return [tool];
}

/** Settings of a search of the vendor's own; other tools of its own have no counterpart, so theirs go with them. */
function endHosted(fields: Fields<WebSearchTool | WebSearchPreviewTool>): void {
  for (const setting of [
    'filters',
    'user_location',
    'search_context_size',
    'search_content_types',
  ] as const) {
    fields.drop(setting, OWN_SETTING);
  }
  fields.end();
}

const SHELL = 'Runs a command in the shell of the user, and returns its output. The input is the command.';
const SEARCH = 'Finds tools, which can be called from then on. The input says what they should do.';

/** What the caller runs itself, though its calls have a form of their own; undefined for other tools. */
function readOwnForm(type: string, fields: Fields<ToolWire>): Tool | undefined {
  const { path } = fields;
  if (type === 'local_shell') {
    fields.end();
    return { kind: 'freeform', path, name: type, description: SHELL, ownForm: type };
  }
  if (type !== 'tool_search' || fields.take('execution' as never) !== 'client') return undefined;
  fields.context.losses.add(path, 'changed', 'a function stands for the search');
  const description = fields.text('description') ?? SEARCH;
  const schema = fields.json('parameters') ?? FREEFORM_SCHEMA;
  fields.end();
  return { kind: 'function', path, name: type, description, schema, ownForm: type };
}

function readCustom(fields: Fields<ToolWire>, name: string, description: string | undefined): Tool {
  const format = fields.object<{ type?: string; syntax?: string; definition?: string }>('format');
  const type = format?.word('type', ['text', 'grammar']);
  const syntax = format?.text('syntax');
  const grammar = format?.text('definition');
  if (type === 'grammar' || syntax !== undefined) format?.need('definition', grammar);
  format?.end();
  if (fields.flag('defer_loading')) fields.change('defer_loading', 'the tool is sent at once');
  fields.end();
  return { kind: 'freeform', path: fields.path, name, description, syntax, grammar };
}

function readNamespace(fields: Fields<ToolWire>): Tool[] {
  const name = fields.need('name', fields.text('name')) ?? '';
  const tools = fields.list('tools') ?? [];
  fields.drop('description', 'there are no namespaces');
  fields.end();
  fields.context.losses.add(fields.path, 'changed', 'the names of its tools begin with its own');
  return readToolList(tools, `${fields.path}.tools`, name, fields);
}
