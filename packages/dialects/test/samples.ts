/** Requests with about every field that each format has, in our own words. */

const SCHEMA = {
  type: 'object',
  properties: { path: { type: 'string', description: 'where' }, lines: { type: 'integer', minimum: 1 } },
  required: ['path'],
};

const MESSAGES = {
  model: 'claude-any',
  max_tokens: 4096,
  stream: true,
  temperature: 0.5,
  top_p: 0.9,
  top_k: 40,
  stop_sequences: ['END'],
  metadata: { user_id: 'ada' },
  service_tier: 'auto',
  thinking: { type: 'enabled', budget_tokens: 2048, display: 'summarized' },
  output_config: { effort: 'high' },
  tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  system: [
    { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } },
    { type: 'text', text: 'Be kind.' },
  ],
  tools: [
    {
      name: 'read_file',
      description: 'Reads a file.',
      input_schema: SCHEMA,
      cache_control: { type: 'ephemeral' },
      strict: false,
      eager_input_streaming: true,
    },
    { name: 'later', description: 'Loaded later.', input_schema: { type: 'object' }, defer_loading: true },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 3 },
  ],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is in it?', cache_control: { type: 'ephemeral' } },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aW1n' } },
        {
          type: 'document',
          source: { type: 'base64', media_type: 'application/pdf', data: 'cGRm' },
          title: 'Paper',
        },
        { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } },
        {
          type: 'document',
          source: { type: 'text', media_type: 'text/plain', data: 'plain' },
          title: 'Note',
          citations: { enabled: true },
        },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Let me look.', signature: 'c2ln' },
        {
          type: 'text',
          text: 'Reading.',
          citations: [
            {
              type: 'web_search_result_location',
              url: 'https://example.com/',
              title: 'Page',
              cited_text: 'x',
              encrypted_index: 'b3Bx',
            },
          ],
        },
        { type: 'tool_use', id: 'toolu_1', name: 'read_file', input: { path: '/a', lines: 10 } },
        { type: 'tool_use', id: 'toolu_2', name: 'read_file', input: { path: '/b' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: 'first', is_error: false },
        {
          type: 'tool_result',
          tool_use_id: 'toolu_2',
          content: [
            { type: 'text', text: 'second' },
            { type: 'tool_reference', tool_name: 'later' },
          ],
          is_error: true,
        },
        { type: 'text', text: 'Go on.' },
      ],
    },
    { role: 'assistant', content: 'They are equal.' },
    { role: 'user', content: 'Thanks.' },
  ],
};

const RESPONSES = {
  model: 'gpt-any',
  stream: true,
  store: false,
  instructions: 'Be brief.',
  max_output_tokens: 4096,
  parallel_tool_calls: true,
  temperature: 0.7,
  top_p: 0.8,
  reasoning: { effort: 'high', summary: 'auto' },
  text: { verbosity: 'low' },
  include: ['reasoning.encrypted_content'],
  prompt_cache_key: 'session-1',
  safety_identifier: 'ada',
  client_metadata: { origin: 'cli' },
  tool_choice: 'auto',
  tools: [
    { type: 'function', name: 'read_file', description: 'Reads a file.', parameters: SCHEMA, strict: false },
    {
      type: 'custom',
      name: 'apply_patch',
      description: 'Applies a patch.',
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
    },
    {
      type: 'namespace',
      name: 'crm',
      description: 'Customers.',
      tools: [{ type: 'function', name: 'find', description: 'Finds.', parameters: { type: 'object' } }],
    },
    { type: 'web_search' },
  ],
  input: [
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'House rules.' }] },
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'Look.' },
        { type: 'input_image', image_url: 'data:image/png;base64,aW1n', detail: 'high' },
        { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,cGRm' },
      ],
    },
    {
      type: 'reasoning',
      id: 'rs_1',
      summary: [{ type: 'summary_text', text: 'Think.' }],
      encrypted_content: 'ZW5j',
    },
    {
      type: 'message',
      role: 'assistant',
      content: [
        {
          type: 'output_text',
          text: 'Looking.',
          annotations: [
            {
              type: 'url_citation',
              url: 'https://example.com/',
              title: 'Page',
              start_index: 0,
              end_index: 7,
            },
          ],
        },
        { type: 'output_text', text: 'Still.', annotations: [] },
      ],
    },
    {
      type: 'function_call',
      call_id: 'call_1',
      name: 'read_file',
      arguments: '{"path": "/a", "lines": 1.0}',
    },
    { type: 'custom_tool_call', call_id: 'call_2', name: 'apply_patch', input: '*** Begin\n+x\n' },
    { type: 'function_call', call_id: 'call_3', namespace: 'crm', name: 'find', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_1', output: 'first' },
    { type: 'custom_tool_call_output', call_id: 'call_2', output: 'patched' },
    { type: 'function_call_output', call_id: 'call_3', output: [{ type: 'input_text', text: 'found' }] },
    { role: 'user', content: 'Thanks.' },
  ],
};

const CHAT = {
  model: 'gpt-any',
  stream: true,
  stream_options: { include_usage: true },
  max_completion_tokens: 4096,
  temperature: 0.7,
  top_p: 0.8,
  top_k: 40,
  presence_penalty: 0.1,
  frequency_penalty: 0.2,
  stop: ['END'],
  reasoning_effort: 'high',
  user: 'ada',
  parallel_tool_calls: true,
  service_tier: 'auto',
  tool_choice: 'auto',
  tools: [
    {
      type: 'function',
      function: { name: 'read_file', description: 'Reads a file.', parameters: SCHEMA, strict: false },
      cache_control: { type: 'ephemeral' },
    },
    {
      type: 'custom',
      custom: {
        name: 'apply_patch',
        description: 'Applies a patch.',
        format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } },
      },
    },
  ],
  messages: [
    { role: 'system', content: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look.', cache_control: { type: 'ephemeral' } },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,aW1n', detail: 'low' } },
        { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,cGRm' } },
      ],
    },
    {
      role: 'assistant',
      content: 'Looking.',
      annotations: [
        {
          type: 'url_citation',
          url_citation: { url: 'https://example.com/', title: 'Page', start_index: 0, end_index: 7 },
        },
      ],
      reasoning_content: 'Think.',
      reasoning_details: [{ type: 'reasoning.text', text: 'Think.', signature: 'c2ln', index: 0 }],
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'read_file', arguments: '{"path": "/a", "lines": 1.0}' },
        },
        { id: 'call_2', type: 'custom', custom: { name: 'apply_patch', input: '*** Begin\n+x\n' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'first' },
    { role: 'tool', tool_call_id: 'call_2', content: [{ type: 'text', text: 'patched' }] },
    { role: 'developer', content: 'House rules.' },
    { role: 'user', content: 'Thanks.' },
  ],
};

const GEMINI = {
  systemInstruction: { parts: [{ text: 'Be brief.' }] },
  contents: [
    {
      role: 'user',
      parts: [
        { text: 'Look.' },
        { inlineData: { mimeType: 'image/png', data: 'aW1n' } },
        { fileData: { mimeType: 'application/pdf', fileUri: 'https://example.com/a.pdf' } },
      ],
    },
    {
      role: 'model',
      parts: [
        { text: 'Think.', thought: true },
        { text: 'Looking.' },
        { functionCall: { name: 'read_file', args: { path: '/a', lines: 10 } }, thoughtSignature: 'c2ln' },
        { functionCall: { id: 'own', name: 'read_file', args: { path: '/b' } } },
      ],
    },
    {
      role: 'user',
      parts: [
        { functionResponse: { name: 'read_file', response: { output: 'first' } } },
        { functionResponse: { id: 'own', name: 'read_file', response: { error: 'second' } } },
      ],
    },
    { role: 'user', parts: [{ text: 'Go on.' }] },
  ],
  tools: [
    {
      functionDeclarations: [
        { name: 'read_file', description: 'Reads a file.', parametersJsonSchema: SCHEMA },
        {
          name: 'list',
          description: 'Lists.',
          parameters: { type: 'OBJECT', properties: { depth: { type: 'INTEGER', nullable: true } } },
        },
      ],
    },
  ],
  toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
  safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
  generationConfig: {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    maxOutputTokens: 4096,
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    stopSequences: ['END'],
    thinkingConfig: { includeThoughts: true, thinkingBudget: 4096 },
  },
};

export const SAMPLES = { messages: MESSAGES, responses: RESPONSES, chat: CHAT, gemini: GEMINI };
