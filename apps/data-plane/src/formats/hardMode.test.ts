import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from './generationRequest.ts';
import { type HardTerms, hardTerms } from './hardMode.ts';
import { OPERATIONS, type Operation } from './operation.ts';
import { RequestBody } from './requestBody.ts';
import { type Field, type Fields, mayBeList } from './requestFields/field.ts';
import { walkRequest } from './requestWalker.ts';

const MODEL = '"model":"mock/echo"';
const CHAT = `{${MODEL},"messages":[{"role":"user","content":"hi"}]`;
const INPUT = `{${MODEL},"input":"hi"`;

function operationAt(path: string): Operation {
  const operation = OPERATIONS.find((one) => one.path === path);
  if (!operation) throw new Error(`no operation at ${path}`);
  return operation;
}

function check(path: string, text: string, allowed: readonly string[] = []): HardTerms {
  const body = new RequestBody([Buffer.from(text)]);
  const { operation } = readGenerationRequest(operationAt(path), body);
  return hardTerms(operation, body.toBuffer(), new Set(allowed));
}

function refusal(path: string, text: string, allowed: readonly string[] = []) {
  try {
    check(path, text, allowed);
    return undefined;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { code: error.code, param: error.param, message: error.message };
  }
}

const content = (part: string) => `{${MODEL},"messages":[{"role":"user","content":${part}}]}`;
const input = (items: string) => `{${MODEL},"input":${items}}`;

it.each([
  // Fields that lengthen or multiply the response.
  ['/chat/completions', `${CHAT},"n":"100"}`, 'n'],
  ['/chat/completions', `${CHAT},"n":2.5}`, 'n'],
  ['/chat/completions', `${CHAT},"n":1e2}`, 'n'],
  ['/chat/completions', `${CHAT},"n":129}`, 'n'],
  ['/chat/completions', `${CHAT},"best_of":1000}`, 'best_of'],
  ['/chat/completions', `${CHAT},"max_tokens":"100000","max_completion_tokens":1}`, 'max_tokens'],
  ['/chat/completions', `${CHAT},"max_tokens":-1,"max_completion_tokens":1}`, 'max_tokens'],
  ['/chat/completions', `${CHAT},"max_tokens":1.0}`, 'max_tokens'],
  ['/responses', `${INPUT},"max_output_tokens":0}`, 'max_output_tokens'],
  ['/messages', `${CHAT},"max_tokens":1e300}`, 'max_tokens'],
  // Fields that refer to content elsewhere, or name other models.
  ['/chat/completions', `${CHAT},"models":["mock/dear"]}`, 'models'],
  ['/chat/completions', `${CHAT},"plugins":[{"id":"web"}]}`, 'plugins'],
  ['/chat/completions', `${CHAT},"plugins":{}}`, 'plugins'],
  ['/chat/completions', `${CHAT},"plugins":""}`, 'plugins'],
  ['/chat/completions', `${CHAT},"plugins":[ null]}`, 'plugins'],
  ['/chat/completions', `${CHAT},"web_search_options":{}}`, 'web_search_options'],
  ['/chat/completions', `${CHAT},"web_search_options":{ }}`, 'web_search_options'],
  ['/chat/completions', `${CHAT},"web_search_options":""}`, 'web_search_options'],
  ['/chat/completions', `${CHAT},"web_search_options":false}`, 'web_search_options'],
  ['/chat/completions', `${CHAT},"search_parameters":{"mode":"on"}}`, 'search_parameters'],
  [
    '/chat/completions',
    `${CHAT},"extra_body":{"google":{"cached_content":"c"}}}`,
    'extra_body.google.cached_content',
  ],
  ['/chat/completions', `${CHAT},"modalities":["text","audio"]}`, 'modalities[1]'],
  [
    '/messages',
    `${CHAT},"context_management":{"edits":[{"type":"compact_20260112"}]}}`,
    'context_management.edits[0].type',
  ],
  ['/messages', `${CHAT},"fallbacks":[{"model":"m"}]}`, 'fallbacks'],
  ['/messages', `${CHAT},"fallbacks":"default"}`, 'fallbacks'],
  ['/messages', `${CHAT},"mcp_servers":[{"url":"https://m.test"}]}`, 'mcp_servers'],
  ['/messages', `${CHAT},"container":"c_1"}`, 'container'],
  ['/messages', `${CHAT},"thread":{"previous_message_id":"m","type":"continue"}}`, 'thread.type'],
  ['/responses', `${INPUT},"previous_response_id":"resp_1"}`, 'previous_response_id'],
  ['/responses', `${INPUT},"conversation":{"id":"c"}}`, 'conversation'],
  ['/responses', `${INPUT},"prompt":{"id":"p"}}`, 'prompt'],
  ['/responses', `${INPUT},"reasoning":{"effort":"low","mode":"pro"}}`, 'reasoning.mode'],
  ['/responses', `${INPUT},"context_management":[{"type":"compaction"}]}`, 'context_management[0].type'],
  // Fields that no table has, and other spellings of those that it has.
  ['/chat/completions', `${CHAT},"turbo":true}`, 'turbo'],
  ['/chat/completions', `${CHAT},"MAX_TOKENS":100000}`, 'MAX_TOKENS'],
  ['/chat/completions', `{${MODEL},"messages":[{"role":"user","Content":"hi"}]}`, 'messages[0].Content'],
  ['/messages', `${CHAT},"max_t\\u004fkens":100000}`, 'max_tOkens'],
  // Tools that the vendor runs, in a form that is not known.
  ['/chat/completions', `${CHAT},"tools":[{"google_search":{}}]}`, 'tools[0].google_search'],
  ['/chat/completions', `${CHAT},"tools":{"type":"web_search"}}`, 'tools'],
  ['/responses', `${INPUT},"t\\u006fols":[{"type":"new_search"}]}`, 'tools[0].type'],
  ['/chat/completions', `${CHAT},"tools":["web_search"]}`, 'tools[0]'],
  [
    '/messages',
    `{${MODEL},"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20250305"}}}]}]}`,
    'messages[0].content[0].tool.definition.type',
  ],
  [
    '/responses',
    `${INPUT},"tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}]}`,
    'tools[0].tools[0].type',
  ],
  [
    '/responses',
    `${INPUT},"tools":[{"type":"shell","environment":{"type":"container_auto"}}]}`,
    'tools[0].environment.type',
  ],
  // Content that is not text.
  [
    '/chat/completions',
    content('[{"type":"image_url","image_url":{"url":"https://e.test/a.png"}}]'),
    'messages[0].content[0].type',
  ],
  [
    '/chat/completions',
    content('[{"image_url":{"url":"https://e.test/a.png"}}]'),
    'messages[0].content[0].type',
  ],
  [
    '/chat/completions',
    content('[{"type":"text","text":"a","image_url":{"url":"https://e.test/a.png"}}]'),
    'messages[0].content[0].image_url',
  ],
  [
    '/chat/completions',
    content('[{"text":"a","type":"image_url","type":"text"}]'),
    'messages[0].content[0].type',
  ],
  ['/chat/completions', content('{"type":"image_url"}'), 'messages[0].content'],
  ['/chat/completions', `{${MODEL},"messages":{"0":{"role":"user"}}}`, 'messages'],
  [
    '/chat/completions',
    `{${MODEL},"messages":[{"role":"assistant","audio":{"id":"audio_1"}}]}`,
    'messages[0].audio',
  ],
  [
    '/messages',
    content('[{"type":"tool_result","content":[{"type":"image"}]}]'),
    'messages[0].content[0].content[0].type',
  ],
  [
    '/messages',
    content('[{"type":"document","source":{"type":"url"}}]'),
    'messages[0].content[0].source.type',
  ],
  ['/messages', content('[{"type":"container_upload","file_id":"f"}]'), 'messages[0].content[0].type'],
  ['/responses', input('[{"id":"msg_1"}]'), 'input[0].role'],
  ['/responses', input('[{"type":"item_reference","id":"msg_1"}]'), 'input[0].type'],
  ['/responses', input('[{"type":"reasoning","id":"rs_1","summary":[]}]'), 'input[0].encrypted_content'],
  [
    '/responses',
    input('[{"type":"function_call_output","output":[{"type":"input_file"}]}]'),
    'input[0].output[0].type',
  ],
  ['/embeddings', input('[{"image":"https://e.test/a.png"}]'), 'input[0]'],
])('%s refuses %s: %s', (path, text, param) => {
  const refused = refusal(path, text);
  expect(refused).toMatchObject({ code: 'not_allowed_in_hard_mode', param });
  expect(refused?.message).toContain(param);
});

it.each([
  ['/chat/completions', `${CHAT},"temperature":1,"temperature":2}`, 'temperature'],
  ['/chat/completions', content('[{"type":"text","type":"text"}]'), 'messages[0].content[0].type'],
  [
    '/chat/completions',
    `{${MODEL},"messages":[{"role":"user","content":"a","c\\u006fntent":[]}]}`,
    'messages[0].content',
  ],
])('%s refuses a field that occurs twice at a level that is read: %s', (path, text, param) => {
  expect(refusal(path, text)).toMatchObject({ code: 'duplicate_field', param });
});

it.each([
  ['/chat/completions', `${CHAT},"n":3,"max_tokens":10,"max_completion_tokens":null,"service_tier":"auto"}`],
  ['/chat/completions', `${CHAT},"service_tier":"priority","best_of":2,"echo":false,"models":null}`],
  ['/chat/completions', content('[{"type":"text","text":"hi"}]')],
  [
    '/chat/completions',
    `${CHAT},"tools":[{"type":"function","function":{"name":"f","parameters":{"model":{"a":1,"a":2}}}}]}`,
  ],
  [
    '/chat/completions',
    `{${MODEL},"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function"}]},{"role":"tool","tool_call_id":"1","content":"2"}]}`,
  ],
  ['/responses', input('"hi"')],
  ['/responses', input('[{"role":"user","content":[{"text":"hi","type":"input_text"}]}]')],
  ['/responses', input('[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}]')],
  ['/responses', `${INPUT},"background":true,"max_output_tokens":5}`],
  [
    '/messages',
    `${CHAT},"max_tokens":10,"system":[{"type":"text","text":"be"}],"tools":[{"name":"f","input_schema":{}}]}`,
  ],
  ['/messages', `${CHAT},"speed":"fast","inference_geo":"us","context_management":{"edits":[]}}`],
  ['/messages', content('[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"2"}]}]')],
  ['/messages/count_tokens', CHAT.concat('}')],
  ['/embeddings', input('["a","b"]')],
  ['/embeddings', input('[[1,2],[3]]')],
])('%s allows requests whose cost is bounded: %s', (path, text) => {
  expect(refusal(path, text)).toBeUndefined();
});

it('allows what coding agents send', () => {
  const claudeCode = {
    model: 'claude-opus-5-5',
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] },
      {
        role: 'system',
        content: [{ type: 'text', text: '# Environment' }],
        output_config: { effort: 'medium' },
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'x', signature: 's' },
          { type: 'tool_use', id: 't', name: 'Bash', input: { model: 'x' } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 't', content: 'done', is_error: false }],
      },
    ],
    system: [{ type: 'text', text: 'be', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    tools: [{ name: 'Bash', description: 'd', input_schema: { type: 'object' }, defer_loading: true }],
    metadata: { user_id: '{}' },
    max_tokens: 128_000,
    thinking: { type: 'adaptive', display: 'omitted' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    output_config: { effort: 'medium' },
    stream: true,
  };
  expect(check('/messages', JSON.stringify(claudeCode))).toMatchObject({
    removedTools: [],
    contextPasses: 0,
  });

  const custom = {
    type: 'custom',
    name: 'exec',
    format: { type: 'grammar', syntax: 'lark', definition: 'x' },
  };
  const called = { type: 'function', name: 'wait', strict: false, parameters: {} };
  const codex = {
    model: 'gpt-6.1-sol',
    stream: true,
    input: [
      {
        type: 'additional_tools',
        id: 'at_1',
        role: 'developer',
        tools: [
          { type: 'namespace', name: 'functions', description: '', tools: [custom, called] },
          { type: 'web_search', external_web_access: true },
        ],
      },
      {
        type: 'message',
        id: 'msg_1',
        role: 'user',
        content: [{ type: 'input_text', text: 'hi' }],
        internal_chat_message_metadata_passthrough: { turn_id: 't' },
      },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' },
      { type: 'custom_tool_call', call_id: 'c', name: 'exec', input: 'ls', status: 'completed' },
      { type: 'custom_tool_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'a' }] },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { effort: 'low', context: 'all_turns' },
    store: false,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    text: { verbosity: 'low' },
    client_metadata: { session_id: 's' },
  };
  expect(check('/responses', JSON.stringify(codex))).toMatchObject({
    removedTools: [{ path: 'input[0].tools[1]', tool: 'web_search' }],
    removedFields: [],
  });
});

const NARROW: readonly [path: string, body: string, entry: string][] = [
  [
    '/chat/completions',
    content('[{"type":"image_url","image_url":{"url":"https://e.test/a.png"}}]'),
    'messages[].content[].type=image_url',
  ],
  ['/chat/completions', content('[{"type":"hologram"}]'), 'messages[].content[].type=hologram'],
  ['/chat/completions', content(`[{"type":"${'x'.repeat(100)}"}]`), 'messages[].content[].type'],
  ['/chat/completions', content('[{"type":"a b"}]'), 'messages[].content[].type'],
  ['/chat/completions', `${CHAT},"n":1.0}`, 'n=1.0'],
  ['/chat/completions', `${CHAT},"n":{}}`, 'n'],
  ['/chat/completions', `${CHAT},"turbo":true}`, 'turbo'],
  ['/responses', '{"model":"m","previous_response_id":"resp_1"}', 'previous_response_id'],
];

describe('a refusal', () => {
  it('says why, what would be accepted, and how an operator allows it', () => {
    const { message } = refusal('/chat/completions', content('[{"type":"file","file":{}}]')) ?? {};
    expect(message).toContain('messages[0].content[0].type "file"');
    expect(message).toContain('"messages[].content[].type=file" to the hard_allow_fields');
    expect(refusal('/chat/completions', content('[{"type":"hologram"}]'))?.message).toContain(
      'Accepted: "text"',
    );
    expect(refusal('/chat/completions', `${CHAT},"MAX_TOKENS":5}`)?.message).toContain(
      'Write it as max_tokens.',
    );
    expect(refusal('/chat/completions', `${CHAT},"n":1.0}`)?.message).toContain('in digits from 1 to 128');
  });

  it('names what an operator adds for this value alone, or the field if it may have no other', () => {
    const entries = NARROW.map(([path, text]) => {
      const { message } = refusal(path, text) ?? {};
      return /add "([^"]*)" to the hard_allow_fields/.exec(message ?? '')?.[1] ?? '';
    });
    expect(entries).toEqual(NARROW.map(([, , entry]) => entry));
    // What it names does lift the refusal.
    const lifted = NARROW.map(([path, text, entry]) => refusal(path, text, [entry]));
    expect(lifted).toEqual(NARROW.map(() => undefined));
  });

  it('is bounded, whatever the request holds', () => {
    const long = 'x'.repeat(10_000);
    for (const text of [`${CHAT},"${long}":1}`, content(`[{"type":"${long}"}]`), `${CHAT},"n":"${long}"}`]) {
      expect(refusal('/chat/completions', text)?.message.length).toBeLessThan(1_500);
    }
  });

  it('is lifted by the fields that the policy allows', () => {
    const image = content('[{"type":"image_url","image_url":{"url":"https://e.test/a.png"}}]');
    const one = 'messages[].content[].type';
    expect(refusal('/chat/completions', image, [one])).toBeUndefined();
    expect(refusal('/chat/completions', image, [`${one}=image_url`])).toBeUndefined();
    expect(refusal('/chat/completions', image, [`${one}=file`])).toMatchObject({
      param: 'messages[0].content[0].type',
    });
    expect(refusal('/chat/completions', image, ['messages'])).toBeUndefined();
    expect(refusal('/chat/completions', image, ['message', 'messages[].con'])).toBeDefined();
    expect(refusal('/chat/completions', `${CHAT},"turbo":true,"n":2}`, ['turbo'])).toBeUndefined();
    // Never two of one field.
    expect(refusal('/chat/completions', `${CHAT},"turbo":1,"turbo":2}`, ['turbo'])).toMatchObject({
      code: 'duplicate_field',
    });
  });
});

describe('tools that the vendor runs', () => {
  const search = '{"type":"web_search_20250305","name":"web_search"}';

  it('are counted if the request bounds their uses', () => {
    const bounded = search.replace('}', ',"max_uses":3}');
    expect(check('/messages', `${CHAT},"tools":[${bounded},${bounded}]}`)).toMatchObject({
      toolUses: { web_search: 6 },
      contextPasses: 6,
      removedTools: [],
    });
    const calls = `${INPUT},"tools":[{"type":"web_search"},{"type":"code_interpreter"}],"max_tool_calls":4}`;
    expect(check('/responses', calls)).toMatchObject({
      toolUses: { web_search: 4, code_interpreter: 4 },
      contextPasses: 4,
      removedTools: [],
    });
  });

  it('are removed otherwise', () => {
    for (const uses of ['', ',"max_uses":null', ',"max_uses":"3"', ',"max_uses":1e1', ',"max_uses":0']) {
      const { removedTools, removedFields, toolUses } = check(
        '/messages',
        `${CHAT},"tools":[{"name":"f","input_schema":{}},${search.replace('}', `${uses}}`)}]}`,
      );
      expect(removedTools).toMatchObject([{ path: 'tools[1]', tool: 'web_search' }]);
      expect({ removedFields, toolUses }).toEqual({ removedFields: [], toolUses: {} });
    }
    expect(check('/messages', `${CHAT},"tools":[${search}]}`).removedFields).toContain('tools');
  });

  it('stay if the policy allows them', () => {
    const text = `${CHAT},"tools":[${search}]}`;
    expect(check('/messages', text, ['tools[].type=web_search_20250305']).removedTools).toEqual([]);
    expect(check('/messages', text, ['tools']).removedTools).toEqual([]);
    expect(check('/messages', text, ['tools[].type=mcp']).removedTools).toHaveLength(1);
  });

  it('are refused if the request forces one that would be removed', () => {
    const forced = (path: string, text: string) => refusal(path, text)?.param;
    const tool = '{"name":"f","input_schema":{}}';
    const choices = [
      ['/messages', `${CHAT},"tools":[${search},${tool}],"tool_choice":{"type":"tool","name":"web_search"}}`],
      ['/messages', `${CHAT},"tools":[${search}],"tool_choice":{"type":"any"}}`],
      [
        '/responses',
        `${INPUT},"tool_choice":{"type":"image_generation"},"tools":[{"type":"image_generation"}]}`,
      ],
      ['/responses', `${INPUT},"tool_choice":"required","tools":[{"type":"mcp"}]}`],
      [
        '/responses',
        `${INPUT},"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp"}]},"tools":[{"type":"mcp"},{"type":"function","name":"f"}]}`,
      ],
    ] as const;
    for (const [path, text] of choices) expect(forced(path, text)).toBe('tool_choice');
    expect(
      forced('/messages', `${CHAT},"tools":[${search},${tool}],"tool_choice":{"type":"any"}}`),
    ).toBeUndefined();
    // A function of the same name is another tool.
    const sameName = '{"type":"function","name":"mcp"}';
    expect(
      forced('/responses', `${INPUT},"tool_choice":${sameName},"tools":[{"type":"mcp"},${sameName}]}`),
    ).toBeUndefined();
    expect(forced('/responses', `${INPUT},"tool_choice":"auto","tools":[{"type":"mcp"}]}`)).toBeUndefined();
  });

  it('are refused if they are too many to be removed', () => {
    const many = Array.from({ length: 200 }, () => search).join();
    expect(refusal('/messages', `${CHAT},"tools":[${many}]}`)?.param).toBe('tools[128].type');
  });
});

it('counts what a vendor adds to the input', () => {
  expect(check('/chat/completions', `${CHAT}}`)).toMatchObject({ addedTokens: 0, contextPasses: 0 });
  const tools = [',"tools":[{"type":"function","function":{}}]', ',"functions":[{"name":"f"}]'];
  for (const some of tools) {
    expect(check('/chat/completions', `${CHAT}${some}}`).addedTokens).toBeGreaterThan(804);
  }
  const shell = `${CHAT},"tools":[{"type":"bash_20250124","name":"bash"}]}`;
  expect(check('/messages', shell).addedTokens).toBeGreaterThan(804 + 735);
  const found = content('[{"type":"web_search_tool_result","content":[]}]');
  expect(check('/messages', found).contextPasses).toBe(1);
});

it('takes no memory beyond the body for what it refuses or skips', () => {
  const objects = `[${'{},'.repeat(1_000_000)}{}]`;
  const growth = () => {
    const before = process.memoryUsage().heapUsed;
    expect(refusal('/chat/completions', `${CHAT},"metadata":${objects}}`)).toBeUndefined();
    expect(refusal('/chat/completions', `{${MODEL},"messages":${objects}}`)).toBeUndefined();
    return process.memoryUsage().heapUsed - before;
  };
  // The least of three: now and then V8 has not collected yet what came before.
  expect(Math.min(growth(), growth(), growth())).toBeLessThan(48 * 1024 * 1024);
});

describe('an empty list', () => {
  /** Fields that nothing bounds, of the request or of an item of its list of messages or inputs. */
  const unboundedFields = (fields: Fields) =>
    Object.entries(fields).filter(([, { cost }]) => cost === 'unbounded' || cost === 'stored');
  const isRefused = (fields: Fields, name: string, value: unknown) => {
    let found = false;
    const refuse = () => {
      found = true;
    };
    const body = Buffer.from(JSON.stringify({ [name]: value }, undefined, 1));
    walkRequest(body, fields, { allows: () => false, refuse, maxToolCalls: undefined, isBounded: true });
    return found;
  };
  /** Every table of fields, at any depth. */
  const tables = (fields: Fields, found = new Set<Fields>()): Set<Fields> => {
    if (found.has(fields)) return found;
    found.add(fields);
    const into = ({ value }: Field): void => {
      if (value.kind === 'object') tables(value.fields, found);
      else if (value.kind === 'list' || value.kind === 'map') into(value.item);
      else if (value.kind === 'variants') for (const one of Object.values(value.variants)) into(one);
      else if (value.kind === 'kinds') {
        for (const one of [value.object, value.list, value.scalar]) if (one) into(one);
      }
    };
    for (const field of Object.values(fields)) into(field);
    return found;
  };

  it('of things each of which costs asks for nothing, in each field of each table; any other empty value is refused', () => {
    const passed = new Set<string>();
    for (const operation of OPERATIONS) {
      for (const fields of tables(operation.requestFields)) {
        for (const [name, field] of unboundedFields(fields)) {
          if (!isRefused(fields, name, [])) passed.add(name);
          expect([name, isRefused(fields, name, [])]).toEqual([name, !mayBeList(field)]);
          for (const value of [{}, '', [[]], [{}], 0]) {
            expect([name, value, isRefused(fields, name, value)]).toEqual([name, value, true]);
          }
        }
      }
    }
    expect([...passed].sort()).toEqual([
      ...['fallbacks', 'guardrails', 'images', 'mcp_servers', 'models', 'plugins'],
    ]);
  });
});
