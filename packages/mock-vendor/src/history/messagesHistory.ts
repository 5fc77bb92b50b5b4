import { isRecord, type JsonRecord } from '../shared/parameters.ts';
import { badRequest } from '../shared/vendorError.ts';
import { list, membersOf, onlyMembers } from './members.ts';
import type { Signer } from './signer.ts';

/** What each kind of content block has, as far as clients send them. */
const BLOCKS = membersOf({
  text: 'text cache_control citations',
  image: 'source cache_control',
  document: 'source cache_control title context citations',
  thinking: 'thinking signature',
  redacted_thinking: 'data',
  tool_use: 'id name input cache_control caller',
  tool_result: 'tool_use_id content is_error cache_control',
  tool_reference: 'tool_name cache_control',
  server_tool_use: 'id name input cache_control caller',
  web_search_tool_result: 'tool_use_id content cache_control caller',
});
const TOOL =
  'type name description input_schema cache_control strict defer_loading allowed_callers input_examples eager_input_streaming';
const TOOL_MEMBERS = new Set(TOOL.split(' '));
const ID = /^[a-zA-Z0-9_-]+$/;
const NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const MAX_CACHE_MARKS = 4;

const extra = (path: string) => badRequest(`${path}: Extra inputs are not permitted`);

/** Throws Anthropic's 400 for a conversation that it did not take part in like this. */
export function checkMessagesHistory(request: JsonRecord, signer: Signer): void {
  const system = list(request.system);
  for (const [at, block] of system.entries()) checkBlock(block, `system.${at}`, signer);
  for (const [at, tool] of list(request.tools).entries()) checkTool(tool, `tools.${at}`);
  const messages = list(request.messages);
  let called: string[] = [];
  for (const [at, message] of messages.entries()) {
    if (!isRecord(message)) continue;
    onlyMembers(message, ['role', 'content'], (name) => extra(`messages.${at}.${name}`));
    const path = `messages.${at}.content`;
    const blocks = list(message.content).filter(isRecord);
    if (message.content === '' || (Array.isArray(message.content) && blocks.length === 0))
      throw badRequest(`messages.${at}: all messages must have non-empty content`);
    for (const [index, block] of blocks.entries()) checkBlock(block, `${path}.${index}`, signer);
    checkResults(blocks, called, at);
    called = blocks.filter(({ type }) => type === 'tool_use').map(({ id }) => String(id));
    if (new Set(called).size < called.length) throw badRequest(`${path}: \`tool_use\` ids must be unique`);
  }
  if (called.length > 0) throw unanswered(messages.length - 1, called);
  checkThinking(request.thinking, messages);
  const marks = JSON.stringify([request.system, request.messages, request.tools]).split('"cache_control":{');
  if (marks.length - 1 > MAX_CACHE_MARKS)
    throw badRequest(
      `A maximum of ${MAX_CACHE_MARKS} blocks with cache_control may be provided. Found ${marks.length - 1}.`,
    );
}

/** With a budget of tokens, a turn that a call interrupted has to have its reasoning. */
function checkThinking(thinking: unknown, messages: readonly unknown[]): void {
  if (!isRecord(thinking) || thinking.type !== 'enabled') return;
  const [turn, results] = messages.slice(-2).map((one) => (isRecord(one) ? list(one.content) : []));
  const [first] = turn?.filter(isRecord) ?? [];
  const [result] = results?.filter(isRecord) ?? [];
  if (result?.type !== 'tool_result' || first?.type === 'thinking' || first?.type === 'redacted_thinking')
    return;
  throw badRequest(
    `messages.${messages.length - 2}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first?.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
  );
}

function checkBlock(block: unknown, path: string, signer: Signer): void {
  if (!isRecord(block)) return;
  const type = String(block.type);
  const members = BLOCKS.get(type);
  if (!members)
    throw badRequest(
      `${path}: Input tag '${type}' found using 'type' does not match any of the expected tags`,
    );
  onlyMembers(block, members, (name) => extra(`${path}.${type}.${name}`));
  if (type === 'text' && block.text === '')
    throw badRequest(`${path}: text content blocks must be non-empty`);
  if (type === 'thinking' && !signer.isOwn(block.signature))
    throw badRequest(`${path}: Invalid \`signature\` in \`thinking\` block`);
  if (type === 'redacted_thinking' && !signer.isOwn(block.data))
    throw badRequest(`${path}: Invalid \`data\` in \`redacted_thinking\` block`);
  if (type === 'tool_use' && !(ID.test(String(block.id)) && isRecord(block.input)))
    throw badRequest(
      `${path}.tool_use: id should match pattern '^[a-zA-Z0-9_-]+$', and input should be an object`,
    );
  for (const [at, inner] of list(block.content).entries()) checkBlock(inner, `${path}.content.${at}`, signer);
}

/** Each call is answered by the next message, whose results come first and answer nothing else. */
function checkResults(blocks: readonly JsonRecord[], called: readonly string[], at: number): void {
  const results = blocks
    .filter(({ type }) => type === 'tool_result')
    .map((block) => String(block.tool_use_id));
  const missing = called.filter((id) => !results.includes(id));
  if (missing.length > 0) throw unanswered(at - 1, missing);
  const unknown = results.find((id) => !called.includes(id));
  if (unknown !== undefined)
    throw badRequest(
      `messages.${at}.content: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${unknown}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
    );
  if (blocks.slice(0, results.length).some(({ type }) => type !== 'tool_result'))
    throw badRequest(`messages.${at}: \`tool_result\` blocks must come first in the message`);
}

function unanswered(at: number, ids: readonly string[]) {
  return badRequest(
    `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(', ')}.`,
  );
}

function checkTool(tool: unknown, path: string): void {
  // Those that the vendor runs have members of their own.
  if (!isRecord(tool) || (tool.type !== undefined && tool.type !== 'custom' && tool.type !== null)) return;
  onlyMembers(tool, TOOL_MEMBERS, (name) => extra(`${path}.custom.${name}`));
  if (!NAME.test(String(tool.name)))
    throw badRequest(`${path}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`);
  const schema = tool.input_schema;
  if (!isRecord(schema) || schema.type !== 'object')
    throw badRequest(`${path}.custom.input_schema.type: Input should be 'object'`);
}
