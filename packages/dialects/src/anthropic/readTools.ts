import type {
  BetaWebFetchTool20250910,
  BetaWebSearchTool20250305,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type { HostedService, Tool } from '../ir/request.ts';
import { type Fields, fieldsOf } from '../loss/fields.ts';
import { OWN_SETTING } from '../tools/hosted.ts';
import { type MessagesBody, readCacheMark, type ToolWire } from './wire.ts';

const SERVICES: readonly (readonly [prefix: string, service: HostedService])[] = [
  ['web_search_', 'web_search'],
  ['web_fetch_', 'web_fetch'],
  ['code_execution_', 'code'],
];

export function readTools(body: Fields<MessagesBody>): Tool[] {
  const list = body.list('tools') ?? [];
  const tools: Tool[] = [];
  for (let index = 0; index < list.length; index++) {
    const fields = fieldsOf<ToolWire>(list[index], `tools.${index}`, body.context);
    const tool = fields && readTool(fields);
    if (tool) tools.push(tool);
  }
  return tools;
}

function readTool(fields: Fields<ToolWire>): Tool | undefined {
  const { path } = fields;
  const type = fields.text('type') ?? 'custom';
  const name = fields.text('name') ?? '';
  if (type === 'mcp_toolset') {
    fields.context.losses.add(path, 'refused', 'only its vendor runs it');
    return undefined;
  }
  if (type !== 'custom') return readHosted(fields, type, name);
  fields.need('name', name);
  const schema = fields.json('input_schema');
  fields.need('input_schema', schema);
  fields.drop('allowed_callers', 'only its vendor has it');
  fields.drop('eager_input_streaming', 'arguments stream as the vendor sends them');
  fields.drop('input_examples', 'it has no counterpart');
  const tool: Tool = {
    kind: 'function',
    path,
    name,
    description: fields.text('description'),
    schema,
    strict: fields.flag('strict'),
    deferred: fields.flag('defer_loading'),
    cache: readCacheMark(fields as Fields<{ cache_control?: unknown }>),
  };
  fields.end();
  return tool;
}

type HostedWire = BetaWebSearchTool20250305 | BetaWebFetchTool20250910;

/** Settings of tools of the vendor's own, whatever the tool. */
const SETTINGS = [
  'allowed_domains',
  'blocked_domains',
  'user_location',
  'max_content_tokens',
  'allowed_callers',
  'defer_loading',
  'strict',
  'citations',
] as const;

/** Tools of the vendor's own. Its settings are named as lost, whether or not another vendor has such a tool. */
function readHosted(fields: Fields<ToolWire>, type: string, name: string): Tool {
  const service = SERVICES.find(([prefix]) => type.startsWith(prefix))?.[1] ?? 'other';
  readCacheMark(fields as Fields<{ cache_control?: unknown }>);
  const settings = fields as unknown as Fields<HostedWire>;
  settings.drop('max_uses', 'only its vendor limits how often the tool runs');
  for (const setting of SETTINGS) settings.drop(setting, OWN_SETTING);
  fields.end();
  return { kind: 'hosted', path: fields.path, name: name === '' ? type : name, service };
}
