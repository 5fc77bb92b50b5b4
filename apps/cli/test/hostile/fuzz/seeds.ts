/** A request as a real client sends it, to be changed. */
export interface Seed {
  readonly name: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const ephemeral = { type: 'ephemeral', ttl: '1h' };

/** What Claude Code sends, shortened: recorded from its requests. */
const claudeCode = {
  model: 'anthropic/plain',
  max_tokens: 2_000,
  stream: true,
  system: [
    {
      type: 'text',
      text: "You are Claude Code, Anthropic's official CLI for Claude.",
      cache_control: ephemeral,
    },
  ],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: '<system-reminder>\nWeigh the truck.\n</system-reminder>' },
        { type: 'text', text: 'CANARY', cache_control: ephemeral },
      ],
    },
  ],
  tools: [
    { name: 'Bash', description: 'Runs a command.', input_schema: schema },
    { name: 'Read', description: 'Reads a file.', input_schema: schema, cache_control: ephemeral },
  ],
  metadata: { user_id: '{"device_id":"0123","account_uuid":"","session_id":"4567"}' },
  thinking: { type: 'adaptive' },
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  output_config: { effort: 'medium' },
};

/** What Codex sends, shortened. */
const codex = {
  model: 'openai/plain',
  instructions: 'You are Codex, based on GPT-5.',
  input: [
    {
      type: 'message',
      role: 'developer',
      content: [{ type: 'input_text', text: '<permissions instructions>' }],
    },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'CANARY' }] },
  ],
  tools: [
    { type: 'function', name: 'shell', description: 'Runs a command.', strict: false, parameters: schema },
    {
      type: 'custom',
      name: 'apply_patch',
      description: 'Patches.',
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
    },
    {
      type: 'namespace',
      name: 'web',
      description: 'The web.',
      tools: [{ type: 'function', name: 'open', parameters: schema }],
    },
  ],
  tool_choice: 'auto',
  parallel_tool_calls: false,
  reasoning: { effort: 'medium', summary: 'auto' },
  store: false,
  stream: true,
  include: ['reasoning.encrypted_content'],
  prompt_cache_key: '0199-weigh',
  text: { verbosity: 'low' },
  client_metadata: { 'x-codex-installation-id': '0199' },
};

const chat = {
  model: 'local/plain',
  messages: [
    { role: 'system', content: 'You weigh.' },
    { role: 'user', content: 'CANARY' },
  ],
  max_tokens: 300,
};

/** What the SDK @google/genai sends. */
const gemini = {
  contents: [{ role: 'user', parts: [{ text: 'CANARY' }] }],
  systemInstruction: { role: 'user', parts: [{ text: 'You weigh.' }] },
  generationConfig: { temperature: 0.2, maxOutputTokens: 300 },
  tools: [{ functionDeclarations: [{ name: 'weigh', parametersJsonSchema: schema }] }],
};

export const SEEDS: readonly Seed[] = [
  { name: 'gemini', path: '/v1beta/models/gemini/plain:generateContent', body: gemini },
  {
    name: 'gemini, streamed',
    path: '/v1beta/models/gemini/plain:streamGenerateContent?alt=sse',
    body: { ...gemini, generationConfig: { thinkingConfig: { includeThoughts: true } } },
  },
  {
    name: 'gemini, an array, in the other spelling',
    path: '/v1/models/gemini%2Fplain:streamGenerateContent',
    body: { contents: gemini.contents, generation_config: { max_output_tokens: 300, candidate_count: 2 } },
  },
  {
    name: 'gemini, embeddings',
    path: '/v1beta/models/gemini/plain:batchEmbedContents',
    body: { requests: [{ model: 'models/gemini/plain', content: { parts: [{ text: 'CANARY' }] } }] },
  },
  { name: 'claude code', path: '/v1/messages', body: claudeCode },
  {
    name: 'message',
    path: '/v1/messages',
    body: { ...chat, model: 'anthropic/plain', messages: [{ role: 'user', content: 'CANARY' }] },
  },
  { name: 'codex', path: '/v1/responses', body: codex },
  {
    name: 'response',
    path: '/v1/responses',
    body: { model: 'openai/plain', input: 'CANARY', max_output_tokens: 300, store: true },
  },
  { name: 'chat', path: '/v1/chat/completions', body: chat },
  {
    name: 'chat, streamed, with tools',
    path: '/v1/chat/completions',
    body: {
      ...chat,
      model: 'openai/plain',
      max_tokens: undefined,
      max_completion_tokens: 300,
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0.2,
      n: 1,
      tools: [{ type: 'function', function: { name: 'weigh', parameters: schema } }],
      response_format: { type: 'text' },
      reasoning_effort: 'low',
      service_tier: 'auto',
      user: 'ada',
    },
  },
  { name: 'embeddings', path: '/v1/embeddings', body: { model: 'openai/plain', input: ['CANARY', 'weigh'] } },
];

/** Fields that cost money at some vendor, or name something, with values that do. Merged into a request at any depth. */
export const COSTLY: readonly (readonly [field: string, ...values: unknown[]])[] = [
  ['max_tokens', 1, 2_000, 100_000, 0, -1, 1.5, '300', null, 1e308],
  ['max_completion_tokens', 1, 2_000, 100_000, null],
  ['max_output_tokens', 16, 2_000, 100_000],
  ['max_tool_calls', 1, 2, 100],
  ['n', 2, 5, 128, 0, -3, 1.0],
  ['best_of', 5],
  ['service_tier', 'priority', 'flex', 'auto', 'default', 'standard_only', 'scale', '', null],
  ['speed', 'fast', 'standard', null],
  ['inference_geo', 'us', 'global'],
  [
    'fallbacks',
    [{ model: 'dear' }],
    [{ model: 'dear', max_tokens: 4_000, speed: 'fast' }],
    [{ model: 'plain' }],
    'dear',
  ],
  ['models', ['dear'], ['plain', 'dear']],
  ['model', 'dear', 'openai/dear', 'anthropic/dear', 'local/dear', 'nowhere/none'],
  ['stream', true, false, 'true'],
  ['stream_options', { include_usage: true }, { include_usage: false }, null],
  ['background', true, false],
  ['store', true, false],
  ['previous_response_id', 'STORED', 'resp_unknown'],
  ['conversation', 'conv_1', { id: 'conv_1' }],
  ['prompt', { id: 'pmpt_1' }, 'weigh'],
  ['container', 'cntr_1', { skills: [{ type: 'anthropic', skill_id: 'pptx', version: 'latest' }] }],
  ['mcp_servers', [{ type: 'url', url: 'https://mcp.example/sse', name: 'x' }]],
  ['web_search_options', {}, { search_context_size: 'high' }],
  ['modalities', ['text', 'audio'], ['image']],
  ['audio', { voice: 'alloy', format: 'wav' }, { id: 'audio_1' }],
  ['prediction', { type: 'content', content: 'weigh' }],
  ['thinking', { type: 'enabled', budget_tokens: 1_500 }, { type: 'adaptive' }, { type: 'disabled' }],
  ['reasoning', { effort: 'high' }],
  ['reasoning_effort', 'high', 'minimal'],
  ['compaction', { type: 'auto' }],
  [
    'context_management',
    { edits: [{ type: 'compact_20260112' }] },
    [{ type: 'compaction', compact_threshold: 1_000 }],
  ],
  ['plugins', [{ id: 'web' }]],
  ['cached_content', 'cachedContents/1'],
  ['extra_body', { max_tokens: 4_000 }],
  ['truncation', 'auto', 'disabled'],
  ['metadata', { a: 'b' }, { model: 'dear' }, { max_tokens: '5' }],
  ['logprobs', true],
  ['generationConfig', { maxOutputTokens: 2_000, candidateCount: 3 }, { max_output_tokens: 100_000 }, {}],
  ['generation_config', { maxOutputTokens: 4_000 }, { candidate_count: 8 }],
  ['maxOutputTokens', 1, 100_000, '300'],
  ['candidateCount', 2, 8],
  ['serviceTier', 'priority', 'flex', 'standard'],
  ['cachedContent', 'cachedContents/1'],
  ['toolConfig', { functionCallingConfig: { mode: 'ANY' } }],
  [
    'tool_choice',
    'required',
    'none',
    { type: 'web_search' },
    { type: 'any' },
    { type: 'tool', name: 'web_search' },
  ],
];

/** Tools that a list of tools may get. */
export const TOOLS: readonly object[] = [
  { type: 'web_search' },
  { type: 'web_search_preview' },
  { type: 'web_search_20250305', name: 'web_search', max_uses: 2 },
  { type: 'web_search_20260209', name: 'web_search' },
  { type: 'web_fetch_20250910', name: 'web_fetch', max_uses: 1 },
  { type: 'code_execution_20250825', name: 'code_execution' },
  { type: 'advisor_20260301', name: 'advisor', model: 'dear', max_uses: 1 },
  { type: 'code_interpreter', container: { type: 'auto' } },
  { type: 'file_search', vector_store_ids: ['vs_1'] },
  { type: 'image_generation', model: 'gpt-image-1' },
  { type: 'image_generation' },
  { type: 'mcp', server_label: 'x', server_url: 'https://mcp.example' },
  { type: 'computer_use_preview' },
  { type: 'function', name: 'weigh', parameters: schema },
  { name: 'weigh', input_schema: { ...schema, properties: { model: { default: 'dear' } } } },
  { type: 'bash_20250124', name: 'bash' },
  { type: 'teleport' },
  { googleSearch: {} },
  { google_search: {}, functionDeclarations: [{ name: 'weigh' }] },
  { codeExecution: {} },
  { urlContext: {} },
];

/** Content that a list of parts may get. */
export const PARTS: readonly object[] = [
  { type: 'image_url', image_url: { url: 'https://x.example/y.png' } },
  { type: 'input_image', image_url: 'data:image/png;base64,AAAA' },
  { type: 'image', source: { type: 'url', url: 'https://x.example/y.png' } },
  { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
  { type: 'input_file', file_id: 'file_1' },
  { type: 'document', source: { type: 'file', file_id: 'file_1' } },
  { type: 'item_reference', id: 'msg_1' },
  { type: 'text', text: 'more' },
  { type: 'input_text', text: 'more' },
  { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
  { fileData: { fileUri: 'files/1' } },
];
