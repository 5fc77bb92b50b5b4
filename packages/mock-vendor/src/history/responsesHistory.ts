import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { badRequest } from '../shared/vendorError.ts';
import { list, membersOf, onlyMembers } from './members.ts';
import type { Signer } from './signer.ts';

/** What each kind of item has, as far as clients send them. */
const ITEMS = membersOf({
  message: 'id role content status phase',
  function_call: 'id call_id name arguments status namespace caller',
  function_call_output: 'id call_id output status caller',
  custom_tool_call: 'id call_id name input status namespace caller',
  custom_tool_call_output: 'id call_id output status caller',
  reasoning: 'id summary content encrypted_content status',
  item_reference: 'id',
  additional_tools: 'id role tools',
  web_search_call: 'id status action',
});
const PARTS = membersOf({
  input_text: 'text prompt_cache_breakpoint',
  output_text: 'text annotations logprobs',
  refusal: 'refusal',
  input_image: 'image_url file_id detail prompt_cache_breakpoint',
  input_file: 'file_id filename file_data file_url detail prompt_cache_breakpoint',
});
const TOOL = new Set(
  'type name description parameters strict defer_loading output_schema allowed_callers'.split(' '),
);
const NAME = /^[a-zA-Z0-9_-]+$/;
const MAX_NAME_LENGTH = 64;
const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  reasoning: 'rs',
};

const unknown = (path: string) => badRequest(`Unknown parameter: '${path}'.`, path, 'unknown_parameter');

/** Throws OpenAI's 400 for an input that no conversation with it has. */
export function checkResponsesHistory(request: JsonRecord, signer: Signer): void {
  for (const [at, tool] of list(request.tools).entries()) checkTool(tool, `tools[${at}]`);
  const open = new Set<string>();
  for (const [at, item] of list(request.input).entries()) {
    if (!isRecord(item)) continue;
    const path = `input[${at}]`;
    const type = typeof item.type === 'string' ? item.type : 'message';
    checkItem(item, type, path);
    if (type === 'reasoning' && item.encrypted_content !== undefined && !signer.isOwn(item.encrypted_content))
      throw badRequest(
        `The encrypted content for item ${item.id} could not be verified.`,
        path,
        'invalid_encrypted_content',
      );
    if (type.endsWith('_call') && item.call_id !== undefined) open.add(String(item.call_id));
    if (
      type.endsWith('_call_output') &&
      !open.delete(String(item.call_id)) &&
      request.previous_response_id === undefined
    )
      throw badRequest(`No tool call found for function call output with call_id ${item.call_id}.`, 'input');
  }
  const [left] = open;
  if (left !== undefined) throw badRequest(`No tool output found for function call ${left}.`, 'input');
}

function checkItem(item: JsonRecord, type: string, path: string): void {
  const members = ITEMS.get(type);
  if (!members) throw badRequest(`Invalid value: '${type}'.`, `${path}.type`, 'invalid_value');
  onlyMembers(item, members, (name) => unknown(`${path}.${name}`));
  const prefix = PREFIXES[type];
  if (
    prefix !== undefined &&
    item.id !== undefined &&
    item.id !== null &&
    !String(item.id).startsWith(prefix)
  )
    throw badRequest(
      `Invalid '${path}.id': '${item.id}'. Expected an ID that begins with '${prefix}'.`,
      `${path}.id`,
      'invalid_value',
    );
  for (const name of ['id', 'call_id']) {
    if (String(item[name] ?? '').length > 64)
      throw badRequest(
        `Invalid '${path}.${name}': string too long. Expected a string with maximum length 64.`,
        `${path}.${name}`,
        'string_above_max_length',
      );
  }
  if (typeof item.name === 'string') checkName(item.name, `${path}.name`);
  const parts = type === 'message' ? item.content : item.output;
  for (const [at, part] of list(parts).entries())
    checkPart(part, item.role, `${path}.${type === 'message' ? 'content' : 'output'}[${at}]`);
}

function checkPart(part: unknown, role: unknown, path: string): void {
  if (!isRecord(part)) return;
  const type = String(part.type);
  const members = PARTS.get(type);
  const isSaid = type === 'output_text' || type === 'refusal';
  if (!members || isSaid !== (role === 'assistant'))
    throw badRequest(`Invalid value: '${type}'.`, `${path}.type`, 'invalid_value');
  onlyMembers(part, members, (name) => unknown(`${path}.${name}`));
}

function checkName(name: string, path: string): void {
  if (NAME.test(name) && name.length <= MAX_NAME_LENGTH) return;
  throw badRequest(
    `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
    path,
    'invalid_value',
  );
}

function checkTool(tool: unknown, path: string): void {
  if (!isRecord(tool) || tool.type !== 'function') return;
  onlyMembers(tool, TOOL, (name) => unknown(`${path}.${name}`));
  checkName(String(tool.name), `${path}.name`);
}
