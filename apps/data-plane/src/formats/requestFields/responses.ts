import {
  count,
  fillsContext,
  flag,
  free,
  freeFields,
  itemsWithIds,
  kinds,
  list,
  MAX_IDS,
  MAX_TOOLS,
  model,
  OTHER_MODELS,
  object,
  only,
  onlyFlag,
  options,
  outsideId,
  outsideIds,
  priced,
  refersTo,
  shortText,
  stored,
  storedId,
  textOr,
  toolChoice,
  unbounded,
  unboundedList,
  unboundedOutput,
  variants,
  withItemId,
} from './field.ts';
import { MEDIA, OUTPUT_TOKENS, SECOND_PASS, SERVICE_TIER } from './notes.ts';
import { RESPONSES_TOOLS } from './responsesTools.ts';

const TEXT_FIELDS = freeFields(
  'type',
  'text',
  'prompt_cache_breakpoint',
  'annotations',
  'logprobs',
  // SDKs add it to what they parsed.
  'parsed',
);

/** Files that a text cites. The text is there: the vendor need not read them. */
const CITED = {
  annotations: list(
    object({
      file_id: { ...outsideId, inline: 'always' },
      container_id: { ...storedId, inline: 'always' },
    }),
  ),
} as const;

/** Text apart, what a model sees or hears; it may be a file that the vendor stores. */
const MEDIA_PART = refersTo({ file_id: outsideId }, unbounded(MEDIA));

/** The parts of an item's content, or of the output of a call. */
export const RESPONSES_PARTS = variants('type', {
  input_text: object(TEXT_FIELDS),
  output_text: refersTo(CITED, object(TEXT_FIELDS)),
  text: object(TEXT_FIELDS),
  summary_text: object(TEXT_FIELDS),
  reasoning_text: object(TEXT_FIELDS),
  refusal: object(freeFields('type', 'refusal')),
  encrypted_content: object(freeFields('type', 'encrypted_content')),
  input_image: MEDIA_PART,
  input_file: MEDIA_PART,
  input_audio: unbounded(MEDIA),
  computer_screenshot: MEDIA_PART,
});

/** Codex adds the last to every item. */
const ITEM_FIELDS = freeFields('type', 'id', 'status', 'internal_chat_message_metadata_passthrough');
const CALL_FIELDS = {
  ...ITEM_FIELDS,
  ...freeFields('call_id', 'name', 'namespace', 'caller', 'async'),
} as const;
const CONTENT = textOr(RESPONSES_PARTS);
const MESSAGE = object({
  ...ITEM_FIELDS,
  ...freeFields('role', 'phase', 'name'),
  content: CONTENT,
});
/** Where a shell runs. */
const CONTAINER = {
  container_id: storedId,
  file_ids: outsideIds(),
  skills: list(object({ skill_id: outsideId }), MAX_IDS),
} as const;
const OUTPUT = object({ ...CALL_FIELDS, output: textOr(RESPONSES_PARTS) });

/** An item that the vendor stores, without its content. */
const REFERENCE = stored('an item that the vendor stores', { kind: 'object', fields: { id: storedId } });

/** The request that it approves may be an item of the same input. */
const APPROVAL = { approval_request_id: { ...storedId, inline: 'with_item' } } as const;

const ITEMS = itemsWithIds(
  {
    message: MESSAGE,
    function_call: object({ ...CALL_FIELDS, ...freeFields('arguments', 'parsed_arguments') }),
    function_call_output: OUTPUT,
    custom_tool_call: object({ ...CALL_FIELDS, input: free }),
    custom_tool_call_output: OUTPUT,
    local_shell_call: object({ ...CALL_FIELDS, action: free }),
    local_shell_call_output: OUTPUT,
    shell_call: object({ ...CALL_FIELDS, action: free, environment: refersTo(CONTAINER, free) }),
    // Lists of what the commands wrote, as text.
    shell_call_output: object({ ...CALL_FIELDS, ...freeFields('output', 'max_output_length') }),
    apply_patch_call: object({ ...CALL_FIELDS, operation: free }),
    apply_patch_call_output: OUTPUT,
    computer_call: object({ ...CALL_FIELDS, ...freeFields('action', 'actions', 'pending_safety_checks') }),
    computer_call_output: refersTo({ output: MEDIA_PART }, unbounded(MEDIA)),
    // With its content, sealed; without, the vendor adds what it stores.
    reasoning: object(
      { ...ITEM_FIELDS, ...freeFields('summary', 'content', 'encrypted_content') },
      'encrypted_content',
    ),
    compaction: object({ ...ITEM_FIELDS, encrypted_content: free }, 'encrypted_content'),
    compaction_summary: object({ ...ITEM_FIELDS, encrypted_content: free }, 'encrypted_content'),
    compaction_trigger: unbounded(SECOND_PASS),
    additional_tools: object({ ...ITEM_FIELDS, role: free, tools: list(RESPONSES_TOOLS, MAX_TOOLS) }),
    tool_search_call: object({ ...CALL_FIELDS, ...freeFields('arguments', 'execution') }),
    tool_search_output: object({ ...CALL_FIELDS, execution: free, tools: list(RESPONSES_TOOLS, MAX_TOOLS) }),
    configuration_update: object({ ...ITEM_FIELDS, ...freeFields('reasoning', 'text') }),
    image_generation_call: unbounded(MEDIA),
    mcp_approval_response: refersTo(APPROVAL, unbounded('it lets the vendor call a server')),
    // What the vendor's tools did: it may add what it found.
    file_search_call: refersTo(
      { results: list(object({ file_id: { ...outsideId, inline: 'always' } })) },
      fillsContext,
    ),
    web_search_call: fillsContext,
    code_interpreter_call: refersTo({ container_id: storedId }, fillsContext),
    mcp_list_tools: fillsContext,
    mcp_approval_request: fillsContext,
    mcp_call: refersTo(APPROVAL, fillsContext),
    program: fillsContext,
    program_output: fillsContext,
  },
  {
    message: { whole: ['content'] },
    function_call: { whole: ['name', 'arguments'] },
    function_call_output: { whole: ['call_id', 'output'] },
    custom_tool_call: { whole: ['name', 'input'] },
    custom_tool_call_output: { whole: ['call_id', 'output'] },
    local_shell_call: { whole: ['action'] },
    local_shell_call_output: { whole: ['output'] },
    shell_call: { whole: ['action'] },
    shell_call_output: { whole: ['call_id', 'output'] },
    apply_patch_call: { whole: ['operation'] },
    apply_patch_call_output: { whole: ['call_id', 'output'] },
    computer_call: { whole: ['action', 'actions'] },
    computer_call_output: { whole: ['output'] },
    reasoning: { whole: ['encrypted_content'], part: ['content'] },
    compaction: { whole: ['encrypted_content'] },
    compaction_summary: { whole: ['encrypted_content'] },
    compaction_trigger: {},
    additional_tools: { whole: ['tools'] },
    tool_search_call: { whole: ['arguments'] },
    tool_search_output: { whole: ['tools'] },
    configuration_update: { whole: ['reasoning', 'text'] },
    image_generation_call: { whole: ['result'] },
    mcp_approval_response: { whole: ['approve'] },
    file_search_call: { whole: ['results'], part: ['queries'] },
    web_search_call: { whole: ['results'], part: ['action'] },
    code_interpreter_call: { whole: ['outputs'], part: ['code'] },
    mcp_list_tools: { whole: ['tools', 'error'] },
    mcp_approval_request: { whole: ['arguments', 'name'] },
    mcp_call: { whole: ['output', 'error'], part: ['arguments', 'name'] },
    program: { whole: ['code'] },
    program_output: { whole: ['result', 'output'] },
  },
);

/** The items of the input. */
export const RESPONSES_ITEMS = variants(
  'type',
  { ...ITEMS, item_reference: REFERENCE },
  withItemId(object({ ...ITEM_FIELDS, ...freeFields('role', 'phase', 'name'), content: CONTENT }, 'role'), {
    whole: ['content'],
  }),
);

/** The body of a response. */
export const RESPONSES_FIELDS = {
  model,
  input: kinds({ scalar: free, list: list(RESPONSES_ITEMS) }),
  instructions: kinds({ scalar: free, list: list(RESPONSES_ITEMS) }),
  max_output_tokens: count(OUTPUT_TOKENS),
  max_tool_calls: count('the uses of the tools that the vendor runs'),
  service_tier: priced(SERVICE_TIER),
  tools: list(RESPONSES_TOOLS, MAX_TOOLS),
  // Bounded by max_output_tokens, which it then requires.
  background: onlyFlag,
  previous_response_id: stored('a response that the vendor stores'),
  conversation: stored('a conversation that the vendor stores', {
    kind: 'kinds',
    scalar: storedId,
    object: object({ id: storedId }),
  }),
  prompt: kinds({
    scalar: free,
    object: stored('a prompt that the vendor stores', {
      kind: 'object',
      fields: { id: outsideId, variables: { cost: 'free', value: { kind: 'map', item: MEDIA_PART } } },
    }),
  }),
  context_management: list(
    variants('type', { compaction: unbounded(SECOND_PASS), retention: unbounded(SECOND_PASS) }),
  ),
  reasoning: object({
    ...freeFields('effort', 'summary', 'generate_summary', 'context', 'max_tokens', 'enabled', 'exclude'),
    // Other modes run the model several times.
    mode: only('standard'),
  }),
  // The vendor's moderation is free of charge.
  moderation: object({ model, policy: free }),
  prompt_cache_options: object({
    ...freeFields('mode', 'ttl', 'prewarm'),
    comparison_response_id: stored('a response that the vendor stores'),
  }),
  store: flag,
  stream: flag,
  stream_options: options,
  tool_choice: toolChoice,
  prompt_cache_key: shortText,
  ...freeFields(
    'access_programs',
    'client_metadata',
    'image',
    'include',
    'metadata',
    'parallel_tool_calls',
    'prompt_cache_retention',
    'safety_identifier',
    'temperature',
    'text',
    'top_logprobs',
    'top_p',
    'truncation',
    'user',
    'generate',
  ),
  // Of compatible vendors.
  ...freeFields(
    'top_k',
    'min_p',
    'presence_penalty',
    'frequency_penalty',
    'seed',
    'stop',
    'reasoning_effort',
  ),
  search_parameters: unbounded('each source is billed, and nothing bounds their number'),
  models: unboundedOutput('other models may answer, at other prices', OTHER_MODELS),
  provider: unboundedOutput('other providers of the model have other prices'),
  plugins: unboundedList('plugins search and read files, which is billed'),
  preset: unbounded('the preset may name other models and tools'),
} as const;
