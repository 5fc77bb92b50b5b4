import {
  bounded,
  count,
  describedByVendor,
  fillsContext,
  flag,
  free,
  freeFields,
  kinds,
  list,
  MAX_MODELS,
  MAX_TOOLS,
  model,
  object,
  outsideId,
  priced,
  refersTo,
  stored,
  storedId,
  textOr,
  toolChoice,
  unbounded,
  unboundedList,
  unboundedOutput,
  variants,
} from './field.ts';
import { MESSAGES_TOOL_DEFINITIONS, MESSAGES_TOOLS } from './messagesTools.ts';
import { MEDIA, OUTPUT_TOKENS, SECOND_PASS, SERVICE_TIER } from './notes.ts';

const BLOCK_FIELDS = freeFields('type', 'cache_control');
const TEXT = object({ ...BLOCK_FIELDS, ...freeFields('text', 'citations', 'parsed_output') });
/** For citations, the vendor marks each sentence. */
const CITED = { citations: fillsContext } as const;
const FILE = stored('a file that the vendor stores', { kind: 'object', fields: { file_id: outsideId } });
/** What the vendor's code left behind, which the block shows: the vendor need not read it. */
const LEFT_BEHIND = refersTo(
  { content: object({ content: list(object({ file_id: { ...outsideId, inline: 'always' } })) }) },
  fillsContext,
);
/** Those of the vendor are anyone's. */
const SKILLS = list(
  variants('type', {
    anthropic: object(freeFields('type', 'version')),
    custom: stored('a skill that the vendor stores', { kind: 'object', fields: { skill_id: outsideId } }),
  }),
);
const IMAGE = refersTo({ source: variants('type', { file: FILE }) }, unbounded(MEDIA));
const DOCUMENT = object({
  ...BLOCK_FIELDS,
  ...CITED,
  ...freeFields('context', 'title'),
  source: variants('type', {
    text: object(freeFields('type', 'data', 'media_type')),
    content: object({
      type: free,
      content: textOr(variants('type', { text: TEXT, image: IMAGE })),
    }),
    base64: unbounded(MEDIA),
    url: unbounded(MEDIA),
    file: FILE,
  }),
});
const SEARCH_RESULT = object({
  ...BLOCK_FIELDS,
  ...CITED,
  ...freeFields('source', 'title'),
  content: textOr(variants('type', { text: TEXT })),
});
const TOOL_REFERENCE = object({ ...BLOCK_FIELDS, tool_name: free });

/** What a client's tool returned. */
export const RESULT_BLOCKS = variants('type', {
  text: TEXT,
  image: IMAGE,
  document: DOCUMENT,
  search_result: SEARCH_RESULT,
  tool_reference: TOOL_REFERENCE,
  browser_state: object({ ...BLOCK_FIELDS, ...freeFields('tabs', 'state_changes') }),
});

const TOOL_CHANGE = variants('type', {
  tool_reference: object(freeFields('type', 'name')),
  mcp_tool_reference: object(freeFields('type', 'name', 'server_name')),
  mcp_toolset_reference: object(freeFields('type', 'server_name')),
  tool_definition: object({ type: free, definition: MESSAGES_TOOL_DEFINITIONS }),
});
const TOOL_CHANGES = {
  tool_addition: object({ ...BLOCK_FIELDS, tool: TOOL_CHANGE }),
  tool_removal: object({ ...BLOCK_FIELDS, tool: free }),
} as const;

/** The blocks of a message's content. */
export const MESSAGES_BLOCKS = variants('type', {
  text: TEXT,
  image: IMAGE,
  document: DOCUMENT,
  search_result: SEARCH_RESULT,
  thinking: object(freeFields('type', 'thinking', 'signature')),
  redacted_thinking: object(freeFields('type', 'data')),
  tool_use: object({ ...BLOCK_FIELDS, ...freeFields('id', 'input', 'name', 'caller', 'toolset_name') }),
  tool_result: object({
    ...BLOCK_FIELDS,
    ...freeFields('tool_use_id', 'is_error', 'toolset_name'),
    content: textOr(RESULT_BLOCKS),
  }),
  tool_reference: TOOL_REFERENCE,
  ...TOOL_CHANGES,
  // A summary of what came before it, as text or sealed.
  compaction: object({
    ...BLOCK_FIELDS,
    ...freeFields('content', 'encrypted_content', 'signature'),
    tool_changes: list(variants('type', TOOL_CHANGES)),
  }),
  fallback: object(freeFields('type', 'from', 'to', 'trigger')),
  mcp_tool_listing: object(freeFields('type', 'mcp_server_name', 'tools')),
  container_upload: FILE,
  // What the vendor's tools did.
  server_tool_use: fillsContext,
  web_search_tool_result: fillsContext,
  web_fetch_tool_result: refersTo({ content: object({ content: DOCUMENT }) }, fillsContext),
  advisor_tool_result: fillsContext,
  code_execution_tool_result: LEFT_BEHIND,
  bash_code_execution_tool_result: LEFT_BEHIND,
  text_editor_code_execution_tool_result: fillsContext,
  tool_search_tool_result: fillsContext,
  mcp_tool_use: fillsContext,
  mcp_tool_result: fillsContext,
});

/** A message of any role. */
export const MESSAGES_MESSAGE = object({
  ...freeFields('role', 'clear_at'),
  content: textOr(MESSAGES_BLOCKS),
  output_config: object({ effort: free }),
});

/** The vendor adds a prompt that explains it. */
const FORMAT = describedByVendor(free);
const OUTPUT_CONFIG = object({
  effort: free,
  format: FORMAT,
  // It tells the model what is left; it limits nothing.
  task_budget: free,
});
const THINKING = variants('type', {
  enabled: object({
    ...freeFields('type', 'block_binding', 'display'),
    budget_tokens: bounded('max_tokens, which thinking counts towards'),
  }),
  adaptive: object(freeFields('type', 'block_binding', 'display')),
  between_tools: object(freeFields('type', 'block_binding', 'display')),
  disabled: object(freeFields('type')),
});

/** The body of a message, and of a count of its tokens. */
export const MESSAGES_FIELDS = {
  model,
  messages: list(MESSAGES_MESSAGE),
  system: textOr(variants('type', { text: TEXT })),
  max_tokens: count(OUTPUT_TOKENS),
  tools: list(MESSAGES_TOOLS, MAX_TOOLS),
  thinking: THINKING,
  output_config: OUTPUT_CONFIG,
  output_format: FORMAT,
  service_tier: priced(SERVICE_TIER),
  speed: priced('the speed in the answer; the speed that the request asks for is reserved'),
  inference_geo: priced('the geography in the answer; without one, the dearest is reserved'),
  context_management: object({
    edits: list(
      variants('type', {
        clear_tool_uses_20250919: free,
        clear_thinking_20251015: free,
        compact_20260112: unbounded(SECOND_PASS),
      }),
    ),
  }),
  compaction: unbounded(SECOND_PASS),
  fallbacks: unboundedOutput('another model may answer as well, at its own price', {
    kind: 'kinds',
    scalar: model,
    list: list(
      object({
        model,
        ...freeFields('max_tokens', 'output_config', 'speed', 'thinking'),
      }),
      MAX_MODELS,
    ),
  }),
  container: kinds({
    scalar: stored('a container of the vendor'),
    object: stored('a container of the vendor', { kind: 'object', fields: { id: storedId, skills: SKILLS } }),
  }),
  thread: variants('type', {
    create: object(freeFields('type')),
    continue: stored('a conversation that the vendor stores', {
      kind: 'object',
      fields: { previous_message_id: storedId },
    }),
  }),
  // The vendor compares prompts: it adds nothing to this one.
  diagnostics: refersTo({ previous_message_id: storedId }, free),
  mcp_servers: unboundedList('the vendor calls servers, and nothing bounds how often or what they add'),
  stream: flag,
  tool_choice: toolChoice,
  ...freeFields(
    'betas',
    'billing_policy',
    'cache_control',
    'fallback_credit_token',
    'metadata',
    'stop_sequences',
    'temperature',
    'top_k',
    'top_p',
    'anthropic_version',
    'user_profile_id',
    'workspace_id',
  ),
} as const;
