import {
  bounded,
  count,
  flag,
  free,
  freeFields,
  list,
  MAX_TOOLS,
  model,
  OTHER_MODELS,
  object,
  only,
  options,
  outsideId,
  outsideIds,
  priced,
  refersTo,
  serverTool,
  shortText,
  sizedTool,
  stored,
  storedId,
  switchedOn,
  textOr,
  toolChoice,
  unbounded,
  unboundedList,
  unboundedOutput,
  variants,
} from './field.ts';
import { MAX_CHOICES, MEDIA, OUTPUT_TOKENS, SERVICE_TIER } from './notes.ts';
import { CODE_CONTAINER, CODE_INTERPRETER } from './responsesTools.ts';

const TEXT_FIELDS = freeFields('type', 'text', 'cache_control', 'prompt_cache_breakpoint');

const CACHED_CONTENT = { ...stored('content that the vendor stores'), isPath: true, isMadeOutside: true };

/** The parts of a message's content. */
export const CHAT_PARTS = variants('type', {
  text: object(TEXT_FIELDS),
  // As some clients send them to compatible vendors.
  input_text: object(TEXT_FIELDS),
  output_text: object(TEXT_FIELDS),
  refusal: object(freeFields('type', 'refusal', 'prompt_cache_breakpoint')),
  // Mistral's.
  thinking: object({
    ...freeFields('type', 'signature', 'closed'),
    thinking: textOr(variants('type', { text: object(TEXT_FIELDS) })),
  }),
  image_url: unbounded(MEDIA),
  input_audio: unbounded(MEDIA),
  audio_url: unbounded(MEDIA),
  video_url: unbounded(MEDIA),
  document_url: unbounded(MEDIA),
  document: unbounded(MEDIA),
  reference: unbounded(MEDIA),
  // OpenAI's and Mistral's.
  file: refersTo({ file: object({ file_id: outsideId }), file_id: outsideId }, unbounded(MEDIA)),
});

/** A message of any role. */
export const CHAT_MESSAGE = object({
  ...freeFields('role', 'name', 'refusal', 'tool_calls', 'tool_call_id', 'function_call', 'cache_control'),
  content: textOr(CHAT_PARTS),
  audio: stored('audio of an earlier response, which the vendor stores', {
    kind: 'object',
    fields: { id: storedId },
  }),
  // Of DeepSeek, Groq, OpenRouter, xAI and Mistral: thoughts of an earlier response, as text.
  ...freeFields('reasoning', 'reasoning_content', 'reasoning_details', 'annotations', 'prefix', 'id'),
  // Messages of earlier responses, which clients send back as they are.
  ...freeFields('parsed', 'executed_tools', 'extra_content', 'citations'),
  images: unboundedList(MEDIA),
});

/** What a chat's tools may be. */
export const CHAT_TOOLS = variants(
  'type',
  {
    function: object({
      ...freeFields('type', 'function', 'cache_control', 'defer_loading'),
      ...freeFields('name', 'description', 'parameters', 'strict'),
    }),
    custom: object(freeFields('type', 'custom')),
    // Groq's and Mistral's; those of OpenAI where a vendor takes them here.
    browser_search: serverTool('web_search'),
    web_search: serverTool('web_search'),
    web_search_preview: serverTool('web_search'),
    web_search_premium: serverTool('web_search_premium'),
    x_search: serverTool('x_search'),
    code_interpreter: refersTo(
      CODE_CONTAINER,
      sizedTool('code_interpreter', 'container', undefined, CODE_INTERPRETER),
    ),
    code_execution: serverTool('code_execution'),
    image_generation: serverTool('image_generation', undefined, {
      kind: 'object',
      fields: { type: free, model },
    }),
    document_library: refersTo({ library_ids: outsideIds() }, serverTool('document_library')),
    connector: serverTool('connector'),
    file_search: refersTo({ vector_store_ids: outsideIds() }, serverTool('file_search')),
    mcp: serverTool('mcp'),
  },
  // Some compatible vendors leave the type out. What Google runs has no type either, but other fields.
  object({ ...freeFields('function', 'type') }, undefined),
);

/** The body of a chat completion: OpenAI's fields, then those that compatible vendors add. */
export const CHAT_FIELDS = {
  model,
  messages: list(CHAT_MESSAGE),
  max_tokens: count(OUTPUT_TOKENS),
  max_completion_tokens: count(OUTPUT_TOKENS),
  n: count('each choice reserves the whole output limit', MAX_CHOICES),
  service_tier: priced(SERVICE_TIER),
  tools: list(CHAT_TOOLS, MAX_TOOLS),
  functions: free,
  modalities: list(only('text')),
  audio: refersTo(
    { voice: stored('a voice that the vendor stores', { kind: 'object', fields: { id: outsideId } }) },
    unboundedOutput('spoken output; its limit is not max_tokens alone'),
  ),
  prediction: unboundedOutput('rejected predictions are billed as output, beside the output limit'),
  web_search_options: unbounded('each search is billed, and nothing bounds their number'),
  // The vendor's moderation is free of charge.
  moderation: object({ model, policy: free }),
  stream_options: options,
  stream: flag,
  store: flag,
  tool_choice: toolChoice,
  prompt_cache_key: shortText,
  response_format: free,
  ...freeFields(
    'frequency_penalty',
    'function_call',
    'logit_bias',
    'logprobs',
    'metadata',
    'parallel_tool_calls',
    'presence_penalty',
    'prompt_cache_options',
    'prompt_cache_retention',
    'reasoning_effort',
    'safety_identifier',
    'seed',
    'stop',
    'temperature',
    'top_logprobs',
    'top_p',
    'user',
    'verbosity',
  ),
  ...vendorFields(),
} as const;

/** Fields that OpenAI-compatible vendors add. */
function vendorFields() {
  return {
    // Several vendors, and self-hosted servers.
    best_of: count('each candidate reserves the whole output limit', MAX_CHOICES),
    min_tokens: bounded('the output limit'),
    ...freeFields('top_k', 'top_a', 'min_p', 'repetition_penalty', 'length_penalty', 'ignore_eos'),
    ...freeFields('reasoning', 'include_reasoning', 'thinking', 'enable_thinking', 'thinking_budget'),
    ...freeFields('chat_template_kwargs', 'stop_token_ids', 'skip_special_tokens', 'cache_control'),
    ...freeFields('guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'random_seed'),
    enable_search: switchedOn('each search is billed, and nothing bounds their number'),
    // Groq.
    ...freeFields('reasoning_format', 'disable_tool_validation', 'citation_options'),
    ...freeFields('exclude_domains', 'include_domains', 'search_settings', 'documents'),
    compound_custom: unbounded('the vendor chooses models and runs tools', {
      kind: 'object',
      fields: { models: object({ answering_model: model, reasoning_model: model }), tools: free },
    }),
    // Mistral.
    ...freeFields('safe_prompt', 'prompt_mode'),
    guardrails: unboundedList('checks that the vendor may bill'),
    // xAI.
    search_parameters: unbounded('each source is billed, and nothing bounds their number'),
    deferred: {
      ...switchedOn('the answer is fetched later, and may be billed after it was settled'),
      isOutput: true,
    },
    // Together.
    ...freeFields('compliance', 'context_length_exceeded_behavior'),
    echo: { ...switchedOn('the prompt may be billed as output, beside the output limit'), isOutput: true },
    safety_model: unboundedOutput('a second model', { kind: 'kinds', scalar: model }),
    // Cohere.
    ...freeFields('safety_mode', 'strict_tools'),
    // OpenRouter.
    models: unboundedOutput('other models may answer, at other prices', OTHER_MODELS),
    preset: unbounded('the preset may name other models and tools'),
    provider: unboundedOutput('other providers of the model have other prices'),
    plugins: unboundedList('plugins search and read files, which is billed'),
    ...freeFields('transforms', 'usage', 'session_id', 'debug'),
    route: unboundedOutput('another model may answer'),
    // Gemini's compatible endpoint.
    extra_body: object({
      google: object({
        ...freeFields('thinking_config', 'thought_tag_marker', 'safety_settings'),
        cached_content: CACHED_CONTENT,
      }),
    }),
    cached_content: CACHED_CONTENT,
  } as const;
}
