import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { DEFAULT_QUIRKS, type Quirks } from '../src/quirks/quirks.ts';
import { translateError } from '../src/translateAnswer.ts';
import type { Translation } from '../src/translateRequest.ts';
import { sealOpaque } from '../src/wire/seal.ts';
import { answerOptions, foldedAnswer, translatedStream, vendorStream } from './answers.ts';
import { SCOPE, targetOf, translate } from './translating.ts';

/** What a row of the table says: mapped, changed, dropped or refused. */
type Rule = 'M' | 'C' | 'D' | 'R';
type To = Format | readonly [Format, Partial<Quirks>];

interface Row {
  /** As the table names the field. */
  readonly field: string;
  readonly from: Format;
  /** Besides a prompt and a limit. */
  readonly asked: object;
  readonly to: To;
  readonly rule: Rule;
  /** The path that is named; for `M`, what the vendor's body has. */
  readonly said: string;
}

const user = (content: unknown) => ({ role: 'user', content });
const png = { type: 'base64', media_type: 'image/png', data: 'aW1n' };
const schema = { type: 'object', properties: { a: { type: 'string', format: 'uuid' } } };
const closed = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
};
const chatTool = (members: object = {}) => ({
  type: 'function',
  function: { name: 'f', parameters: closed, ...members },
});
const messagesTool = { name: 'f', input_schema: schema };
const foreign = sealOpaque(SCOPE, 'con_1', { owner: 'google', kind: 'thought', data: 'Zm9yZWlnbg', id: '' });
const own = sealOpaque(SCOPE, 'con_1', { owner: 'openai', kind: 'encrypted', data: 'b3du', id: 'rs_1' });
const said = (...parts: unknown[]) => ({
  messages: [user('x'), { role: 'assistant', content: parts }, user('y')],
});
const called = (input: string, id = 'call_1') => ({
  messages: [
    user('x'),
    { role: 'assistant', tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: input } }] },
    { role: 'tool', tool_call_id: id, content: 'done' },
  ],
});
const result = (is_error: boolean, ...content: unknown[]) => ({
  messages: [
    user('x'),
    { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', is_error, content }] },
  ],
});
const document = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'plain' } };
const outputText = (annotations: readonly object[]) => ({
  input: [
    { role: 'assistant', content: [{ type: 'output_text', text: 'a', annotations }] },
    { role: 'user', content: 'y' },
  ],
});
const late = { messages: [user('x'), { role: 'developer', content: 'rule' }, user('y')] };

const ROWS: readonly Row[] = [
  ...rows('system, developer, instructions within a conversation', [
    [
      'chat',
      { messages: [{ role: 'system', content: 'rule' }, user('x')] },
      'messages',
      'M',
      '"system":[{"type":"text","text":"rule"',
    ],
    ['messages', { system: 'rule' }, 'responses', 'M', '"instructions":"rule"'],
    ['messages', { system: 'rule' }, 'gemini', 'M', '"systemInstruction":{"parts":[{"text":"rule"'],
    ['chat', late, 'responses', 'M', '"role":"developer"'],
    ['chat', late, 'messages', 'C', 'messages.1.content'],
    ['chat', late, 'gemini', 'C', 'messages.1.content'],
  ]),
  ...rows('text, image, PDF, audio', [
    [
      'messages',
      { messages: [user([{ type: 'image', source: png }])] },
      'chat',
      'M',
      'data:image/png;base64,aW1n',
    ],
    ['messages', { messages: [user([{ type: 'image', source: png }])] }, 'gemini', 'M', '"inlineData"'],
    [
      'chat',
      {
        messages: [
          user([{ type: 'file', file: { filename: 'a', file_data: 'data:application/pdf;base64,cGRm' } }]),
        ],
      },
      'messages',
      'M',
      '"media_type":"application/pdf"',
    ],
    [
      'chat',
      {
        messages: [user([{ type: 'file', file: { filename: 'a', file_data: 'data:text/csv;base64,YSxi' } }])],
      },
      'messages',
      'M',
      '"data":"a,b"',
    ],
    [
      'chat',
      {
        messages: [
          user([{ type: 'file', file: { filename: 'a', file_data: 'data:application/zip;base64,YQ==' } }]),
        ],
      },
      'messages',
      'R',
      'messages.0.content.0',
    ],
    [
      'chat',
      { messages: [user([{ type: 'input_audio', input_audio: { data: 'YQ==', format: 'wav' } }])] },
      'gemini',
      'M',
      '"mimeType":"audio/wav"',
    ],
    [
      'chat',
      { messages: [user([{ type: 'input_audio', input_audio: { data: 'YQ==', format: 'wav' } }])] },
      'messages',
      'R',
      'messages.0.content.0',
    ],
    [
      'chat',
      { messages: [user([{ type: 'file', file: { file_id: 'file-1' } }])] },
      'gemini',
      'R',
      'messages.0.content.0',
    ],
    [
      'messages',
      { messages: [user([{ type: 'image', source: { type: 'file', file_id: 'file_1' } }])] },
      'responses',
      'R',
      'messages.0.content.0',
    ],
  ]),
  ...rows('tools: schema · strict · choice, parallel', [
    ['messages', { tools: [messagesTool] }, 'responses', 'M', JSON.stringify(schema)],
    ['messages', { tools: [messagesTool] }, ['gemini', { schemas: 'subset' }], 'C', 'tools.0'],
    [
      'messages',
      { tools: [{ ...messagesTool, input_schema: closed, strict: true }] },
      'responses',
      'M',
      '"strict":true',
    ],
    ['messages', { tools: [{ ...messagesTool, strict: true }] }, 'responses', 'C', 'tools.0.strict'],
    ['chat', { tools: [chatTool({ strict: true })] }, 'messages', 'C', 'tools.0.strict'],
    ['chat', { tools: [chatTool()], tool_choice: 'required' }, 'gemini', 'M', '"mode":"ANY"'],
    [
      'chat',
      { tools: [chatTool()], tool_choice: { type: 'function', function: { name: 'g' } } },
      'gemini',
      'R',
      'tool_choice',
    ],
    [
      'gemini',
      {
        tools: [{ functionDeclarations: [{ name: 'f' }, { name: 'g' }] }],
        toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f', 'g'] } },
      },
      'chat',
      'M',
      '"tool_choice":"required"',
    ],
    [
      'chat',
      { tools: [chatTool()], parallel_tool_calls: false },
      'messages',
      'M',
      '"disable_parallel_tool_use":true',
    ],
    ['chat', { tools: [chatTool()], parallel_tool_calls: true }, 'gemini', 'M', '"functionDeclarations"'],
    ['chat', { tools: [chatTool()], parallel_tool_calls: false }, 'gemini', 'C', 'parallel_tool_calls'],
  ]),
  ...rows('arguments · ids · results with images, errors', [
    [
      'chat',
      called('{"a": 1.0, "b": 12345678901234567890}'),
      'messages',
      'M',
      '{"a": 1.0, "b": 12345678901234567890}',
    ],
    ['chat', called('{"a":'), 'messages', 'C', 'messages.1.tool_calls.0'],
    ['chat', called('{}', 'call 1/é'), 'messages', 'M', '"tool_use_id":"'],
    ['messages', result(true, { type: 'text', text: 'no' }), 'gemini', 'M', '"response":{"error":"no"}'],
    ['messages', result(true, { type: 'text', text: 'no' }), 'chat', 'C', 'messages.2.content.0.is_error'],
    [
      'messages',
      result(false, { type: 'image', source: png }),
      'responses',
      'M',
      'data:image/png;base64,aW1n',
    ],
    [
      'messages',
      result(false, { type: 'image', source: png }),
      'chat',
      'C',
      'messages.2.content.0.content.0',
    ],
  ]),
  ...rows('freeform tools, local_shell, client-side search', [
    [
      'responses',
      {
        tools: [{ type: 'custom', name: 'p', format: { type: 'grammar', syntax: 'lark', definition: 'g' } }],
      },
      'messages',
      'C',
      'tools.0',
    ],
    ['responses', { tools: [{ type: 'local_shell' }] }, 'messages', 'C', 'tools.0'],
    [
      'responses',
      { tools: [{ type: 'tool_search', execution: 'client', parameters: closed }] },
      'gemini',
      'C',
      'tools.0',
    ],
  ]),
  ...rows('hosted tools', [
    ['responses', { tools: [{ type: 'web_search' }] }, 'gemini', 'M', '"googleSearch":{}'],
    ['responses', { tools: [{ type: 'image_generation' }] }, 'messages', 'D', 'tools.0'],
    [
      'responses',
      { tools: [{ type: 'image_generation' }], tool_choice: { type: 'image_generation' } },
      'messages',
      'R',
      'tool_choice',
    ],
  ]),
  ...rows('settings of hosted tools', [
    [
      'messages',
      { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 3 }] },
      'gemini',
      'D',
      'tools.0.max_uses',
    ],
    [
      'responses',
      { tools: [{ type: 'web_search', filters: { allowed_domains: ['example.com'] } }] },
      'messages',
      'D',
      'tools.0.filters',
    ],
  ]),
  ...rows('citations in the history', [
    [
      'messages',
      said({ type: 'text', text: 'a', citations: [{ type: 'char_location', cited_text: 'b' }] }),
      'responses',
      'D',
      'messages.1.content.0.citations',
    ],
    [
      'messages',
      said({ type: 'text', text: 'a', citations: null }, { type: 'text', text: 'b', citations: [] }),
      'gemini',
      'M',
      '"text":"b"',
    ],
    ['responses', outputText([{ type: 'url_citation' }]), 'gemini', 'D', 'input.0.content.0.annotations'],
    ['responses', outputText([]), 'messages', 'M', '"text":"a"'],
    [
      'chat',
      { messages: [user('x'), { role: 'assistant', content: 'a', annotations: [{ type: 'url_citation' }] }] },
      'messages',
      'D',
      'messages.1.annotations',
    ],
    [
      'chat',
      { messages: [user('x'), { role: 'assistant', content: 'a', annotations: [] }, user('y')] },
      'messages',
      'M',
      '"text":"a"',
    ],
    [
      'messages',
      { messages: [user([{ ...document, citations: { enabled: true } }])] },
      'responses',
      'D',
      'messages.0.content.0.citations.enabled',
    ],
    [
      'messages',
      { messages: [user([{ ...document, citations: { enabled: false } }])] },
      'responses',
      'M',
      '"text":"plain"',
    ],
  ]),
  ...rows('reasoning effort ↔ budget ↔ adaptive', [
    ['chat', { reasoning_effort: 'high' }, 'responses', 'M', '"effort":"high"'],
    ['chat', { reasoning_effort: 'xhigh' }, 'responses', 'C', 'reasoning_effort'],
    ['chat', { reasoning_effort: 'low' }, 'messages', 'C', 'reasoning_effort'],
    [
      'messages',
      { thinking: { type: 'enabled', budget_tokens: 2048 } },
      'gemini',
      'M',
      '"thinkingBudget":2048',
    ],
    ['messages', { thinking: { type: 'adaptive' } }, 'gemini', 'M', '"thinkingBudget":-1'],
    [
      'messages',
      { thinking: { type: 'enabled', budget_tokens: 2048 } },
      'responses',
      'C',
      'thinking.budget_tokens',
    ],
  ]),
  ...rows('signatures, encrypted content', [
    [
      'messages',
      said({ type: 'thinking', thinking: 'a', signature: own }, { type: 'text', text: 'b' }),
      'responses',
      'M',
      '"encrypted_content":"b3du"',
    ],
    [
      'messages',
      said({ type: 'thinking', thinking: 'a', signature: foreign }, { type: 'text', text: 'b' }),
      'responses',
      'D',
      'messages.1.content.0',
    ],
    [
      'messages',
      said({ type: 'thinking', thinking: 'a', signature: 'c2ln' }, { type: 'text', text: 'b' }),
      'gemini',
      'D',
      'messages.1.content.0',
    ],
  ]),
  ...rows('cache marks, cache keys · sampling · n > 1', [
    [
      'messages',
      { messages: [user([{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }])] },
      'responses',
      'D',
      'messages.0.content.0.cache_control',
    ],
    [
      'chat',
      { messages: [user([{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }])] },
      'messages',
      'M',
      '"cache_control":{"type":"ephemeral"}',
    ],
    ['chat', { prompt_cache_key: 'k' }, 'responses', 'M', '"prompt_cache_key":"k"'],
    ['chat', { prompt_cache_key: 'k' }, 'gemini', 'D', 'prompt_cache_key'],
    ['messages', { top_k: 3 }, 'gemini', 'M', '"topK":3'],
    ['messages', { top_k: 3 }, 'chat', 'D', 'top_k'],
    ['chat', { presence_penalty: 1 }, 'messages', 'D', 'presence_penalty'],
    ['chat', { seed: 3 }, 'gemini', 'M', '"seed":3'],
    ['chat', { seed: 3 }, 'messages', 'R', 'seed'],
    ['chat', { stop: 'a' }, 'messages', 'M', '"stop_sequences":["a"]'],
    ['chat', { stop: 'a' }, 'responses', 'R', 'stop'],
    ['chat', { logit_bias: { 1: 2 } }, 'messages', 'R', 'logit_bias'],
    ['chat', { logprobs: true }, 'messages', 'R', 'logprobs'],
    ['responses', { top_logprobs: 2 }, 'gemini', 'R', 'top_logprobs'],
    ['chat', { n: 2 }, 'messages', 'R', 'n'],
    ['gemini', { generationConfig: { candidateCount: 2 } }, 'chat', 'R', 'generationConfig.candidateCount'],
  ]),
  ...rows('structured output', [
    [
      'chat',
      { response_format: { type: 'json_schema', json_schema: { name: 'o', schema: closed } } },
      'responses',
      'M',
      JSON.stringify(closed),
    ],
    [
      'responses',
      { text: { format: { type: 'json_schema', name: 'o', schema: closed } } },
      'messages',
      'C',
      'text.format',
    ],
  ]),
  ...rows('token limit', [
    ['chat', { max_tokens: 50 }, 'responses', 'M', '"max_output_tokens":50'],
    ['chat', { max_tokens: 5 }, 'responses', 'C', 'max_tokens'],
    ['responses', { max_output_tokens: undefined }, 'messages', 'C', 'max_output_tokens'],
    ['gemini', { generationConfig: {} }, 'messages', 'C', 'generationConfig.maxOutputTokens'],
  ]),
  ...rows('previous_response_id', [
    ['responses', { previous_response_id: 'resp_1' }, 'messages', 'R', 'previous_response_id'],
  ]),
  ...rows('conversation, background, stored prompts, MCP, containers, cached content, compaction', [
    ['responses', { conversation: 'conv_1' }, 'messages', 'R', 'conversation'],
    ['responses', { background: true }, 'messages', 'R', 'background'],
    ['responses', { prompt: { id: 'p' } }, 'messages', 'R', 'prompt'],
    ['responses', { tools: [{ type: 'mcp', server_label: 'a' }] }, 'messages', 'R', 'tools.0'],
    ['responses', { context_management: [{ type: 'compaction' }] }, 'messages', 'R', 'context_management'],
    ['messages', { mcp_servers: [{ name: 'a' }] }, 'responses', 'R', 'mcp_servers'],
    ['messages', { tools: [{ type: 'mcp_toolset', mcp_server_name: 'a' }] }, 'responses', 'R', 'tools.0'],
    ['messages', { container: 'c' }, 'responses', 'R', 'container'],
    [
      'messages',
      { context_management: { edits: [{ type: 'compact_20260112' }] } },
      'responses',
      'R',
      'context_management',
    ],
    [
      'messages',
      { context_management: { edits: [{ type: 'clear_thinking_20251015' }] } },
      'responses',
      'D',
      'context_management',
    ],
    ['gemini', { cachedContent: 'cachedContents/1' }, 'chat', 'R', 'cachedContent'],
    ['gemini', { tools: [{ mcpServers: [{}] }] }, 'chat', 'R', 'tools.0.mcpServers'],
  ]),
  ...rows('user identifier · tier, client metadata, the agents’ billing line', [
    ['messages', { metadata: { user_id: 'ada' } }, 'responses', 'C', 'metadata.user_id'],
    ['chat', { user: 'ada' }, 'messages', 'C', 'user'],
    ['chat', { service_tier: 'flex' }, 'messages', 'D', 'service_tier'],
    ['responses', { client_metadata: { a: 'b' } }, 'messages', 'D', 'client_metadata'],
    [
      'messages',
      { system: [{ type: 'text', text: 'x-anthropic-billing-header: a=b' }] },
      'responses',
      'D',
      'system.0',
    ],
  ]),
  ...rows('unknown request field', [
    ['messages', { newest: 1 }, 'responses', 'D', 'newest'],
    ['responses', { newest: 1 }, 'gemini', 'D', 'newest'],
    ['chat', { newest: 1 }, 'messages', 'D', 'newest'],
    ['gemini', { newest: 1 }, 'chat', 'D', 'newest'],
  ]),
];

function rows(field: string, cases: readonly (readonly [Format, object, To, Rule, string])[]): Row[] {
  return cases.map(([from, asked, to, rule, said]) => ({ field, from, asked, to, rule, said }));
}

/** A prompt and a limit, which a row may replace. */
const PROMPTS: Readonly<Record<Format, object>> = {
  messages: { max_tokens: 4_096, messages: [user('x')] },
  responses: { max_output_tokens: 4_096, input: 'x' },
  chat: { messages: [user('x')] },
  gemini: { contents: [{ role: 'user', parts: [{ text: 'x' }] }], generationConfig: { maxOutputTokens: 9 } },
};

const VERDICTS = { C: 'changed', D: 'dropped', R: 'refused' } as const;

function translated({ from, asked, to }: Row, policy: 'lenient' | 'strict' = 'lenient'): Translation {
  const [format, quirks] = typeof to === 'string' ? [to, {}] : to;
  // A limit, so that only rows about it are about it.
  const limit = from === 'chat' && !('max_tokens' in asked) ? { max_tokens: 30_000 } : {};
  const target = targetOf(format, { maxStops: DEFAULT_QUIRKS[format].maxStops, ...quirks });
  return translate(from, { ...PROMPTS[from], ...limit, ...asked }, target, policy);
}

describe('the table of what becomes of each field', () => {
  it.each(ROWS)('$field: $from to $to is $rule ($said)', (row) => {
    const { rule, said } = row;
    const translation = translated(row);
    if (rule === 'M') {
      expect(translation.kind).toBe('translated');
      expect(translation.kind === 'translated' && translation.body).toContain(said);
      expect(translation.losses.filter(({ reason }) => !OWN_SETTINGS.test(reason))).toEqual([]);
      return;
    }
    expect(translation.kind).toBe(rule === 'R' ? 'refused' : 'translated');
    expect(translation.losses).toContainEqual(
      expect.objectContaining({ path: said, verdict: VERDICTS[rule] }),
    );
  });

  it.each(ROWS.filter(({ rule }) => rule === 'C' || rule === 'D'))(
    '$field: $from to $to is refused if the policy is strict ($said)',
    (row) => {
      const translation = translated(row, 'strict');
      expect(translation.kind).toBe('refused');
      expect(translation.losses.map(({ path }) => path)).toContain(row.said);
    },
  );
});

/** A hosted tool of the target's own has its own settings, which is said. */
const OWN_SETTINGS = /^a tool of the vendor's own stands for it/;

const SAID = { reasoning: [], opaque: '', text: ['hi'], calls: [] };
/** Where a caller finds the vendor's own word, and that of its dialect. */
const NATIVE: Readonly<Record<Format, (answer: ReturnType<typeof JSON.parse>) => unknown>> = {
  messages: ({ stop_reason, native_stop_reason }) => [stop_reason, native_stop_reason],
  responses: ({ status, native_finish_reason }) => [status, native_finish_reason],
  chat: ({ choices: [{ finish_reason, native_finish_reason }] }) => [finish_reason, native_finish_reason],
  gemini: ({ candidates: [{ finishReason, finishMessage }] }) => [finishReason, finishMessage],
};
const ENDS: Readonly<Record<Format, readonly string[]>> = {
  messages: ['end_turn', '"stop_reason":"end_turn"', '"stop_reason":"newest"'],
  responses: ['completed', '"status":"completed"', '"status":"newest"'],
  chat: ['stop', '"finish_reason":"stop"', '"finish_reason":"newest"'],
  gemini: ['STOP', '"finishReason":"STOP"', '"finishReason":"newest"'],
};
const PAIRS = FORMATS.flatMap((from) => FORMATS.filter((to) => to !== from).map((to) => ({ from, to })));

describe('the rows of the table about answers', () => {
  it.each(PAIRS)(
    'stop reasons: of a closed set, with the native value beside: $from to $to',
    ({ from, to }) => {
      const [native = '', usual = '', newest = ''] = ENDS[from];
      const stream = vendorStream(from, SAID);
      const options = answerOptions(from, to);
      const word = ENDS[to][0];
      expect(NATIVE[to](JSON.parse(foldedAnswer(stream, options).body))).toEqual([word, native]);
      expect(translatedStream(stream, options)).toContain(`"${native}"`);
      const other = foldedAnswer(stream.replace(usual, newest), options);
      const [known, own] = NATIVE[to](JSON.parse(other.body)) as [string, string];
      expect(own).toBe('newest');
      expect(['end_turn', 'completed', 'stop', 'OTHER']).toContain(known);
    },
  );

  it.each(PAIRS)('a stream that is cut: an error, never a normal end: $from to $to', ({ from, to }) => {
    const stream = vendorStream(from, SAID);
    const events = stream.split('\n\n');
    const ends = { messages: 2, responses: 1, chat: 3, gemini: 1 };
    const cut = `${events.slice(0, -1 - ends[from]).join('\n\n')}\n\n`;
    const written = translatedStream(cut, answerOptions(from, to));
    expect(written).toContain('broke off before its end');
    expect(written).not.toMatch(/message_stop|response\.completed|\[DONE\]|"finishReason"/);
    expect(foldedAnswer(cut, answerOptions(from, to)).status).toBe(502);
  });

  it.each(FORMATS)('errors: in the caller’s dialect, with the vendor’s message and status: %s', (to) => {
    const body = JSON.stringify({ error: { message: 'too long', code: 'c', type: 't' } });
    for (const from of FORMATS) expect(translateError(body, 413, from, to)).toContain('too long');
  });
});
