import { describe, expect, it } from 'vitest';
import { chatFormat } from './chatFormat.ts';
import { messagesFormat } from './messagesFormat.ts';
import { noFacts, type ResponseFacts, type ResponseFormat, readBody } from './responseFormat.ts';
import { responsesFormat } from './responsesFormat.ts';
import { StreamTap } from './streamTap.ts';

function factsOfBody(format: ResponseFormat, body: object): ResponseFacts {
  const facts = noFacts();
  readBody(format, Buffer.from(JSON.stringify(body)), facts);
  return facts;
}

function factsOfStream(format: ResponseFormat, events: readonly object[]): ResponseFacts {
  const tap = new StreamTap({ format, hideUsage: false });
  for (const event of events) tap.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`));
  tap.end();
  return tap.facts;
}

const chatUsage = { prompt_tokens: 3, completion_tokens: 2 };

describe('a chat completion', () => {
  it('says its tier and its model, in a document and in a stream', () => {
    const said = { said: { serviceTier: 'priority' }, model: 'gpt-x', isFinal: true };
    const head = { id: 'c', service_tier: 'priority', model: 'gpt-x' };
    expect(factsOfBody(chatFormat, { ...head, usage: chatUsage })).toMatchObject(said);
    expect(
      factsOfStream(chatFormat, [
        { ...head, choices: [{ delta: {} }] },
        { choices: [{ delta: { content: 'x' } }] },
        { id: 'c', choices: [], usage: chatUsage },
      ]),
    ).toMatchObject(said);
    const grok = { id: 'c', choices: [{ delta: {} }], x_groq: { usage: chatUsage, service_tier: 'flex' } };
    expect(factsOfStream(chatFormat, [grok])).toMatchObject({
      usage: { inputTokens: 3 },
      said: { serviceTier: 'flex' },
    });
  });

  it.each(['"audio":{"id":"a-1"}', '"audio" : {"id":"a-1"}', '"audio":\n\t{"id":"a-1"}'])(
    'names its audio, however it is written: %j',
    (audio) => {
      const facts = noFacts();
      const others = '{"message":{"audio":null}}';
      readBody(chatFormat, Buffer.from(`{"id":"c","choices":[${others},{"message":{${audio}}}]}`), facts);
      expect([...(facts.objects?.ids.keys() ?? [])]).toEqual(['a-1']);
    },
  );

  it('is not final by usage that is reported in every chunk, until it is finished', () => {
    const chunk = (reason: string | null) => ({
      choices: [{ delta: {}, finish_reason: reason }],
      usage: chatUsage,
    });
    expect(factsOfStream(chatFormat, [chunk(null), chunk(null)])).toMatchObject({
      usage: { outputTokens: 2 },
      isFinal: false,
    });
    expect(factsOfStream(chatFormat, [chunk(null), chunk('stop')]).isFinal).toBe(true);
  });

  it.each([
    [{ server_tool_use: { web_search_requests: 3 } }, { web_search: 3 }],
    [{ num_search_queries: 4 }, { web_search: 4 }],
    [{ num_sources_used: 5 }, { live_search: 5 }],
    [
      {
        num_server_side_tools_used: 6,
        server_side_tool_usage_details: { web_search_calls: 3, x_search_calls: 2, mcp_calls: 0 },
      },
      { web_search: 3, x_search: 2, server_side_tool: 1 },
    ],
    [
      {
        num_server_side_tools_used: -1,
        num_sources_used: 1.5,
        server_tool_use: { web_search_requests: 'x' },
      },
      {},
    ],
    [{ server_tool_use: { web_search_requests: 0 } }, {}],
  ])('counts the uses of tools in %j', (usage, toolUses) => {
    expect(factsOfBody(chatFormat, { usage: { ...chatUsage, ...usage } }).toolUses).toEqual(toolUses);
  });

  it('has searched at least once if it cites pages, or its model always searches', () => {
    const cites = { annotations: [{ type: 'url_citation', url_citation: {} }] };
    const searched = { web_search: 1 };
    expect(factsOfBody(chatFormat, { choices: [{ message: cites }], usage: chatUsage }).toolUses).toEqual(
      searched,
    );
    expect(factsOfBody(chatFormat, { choices: [{ message: { annotations: [] } }] }).toolUses).toEqual({});
    const chunks = [
      { choices: [{ delta: {} }] },
      { choices: [{ delta: cites }] },
      { choices: [], usage: chatUsage },
    ];
    expect(factsOfStream(chatFormat, chunks).toolUses).toEqual(searched);
    const model = 'gpt-4o-search-preview-2025-03-11';
    expect(factsOfBody(chatFormat, { model, usage: chatUsage }).toolUses).toEqual(searched);
  });

  it('counts each tool that Groq ran once, in a document and in a stream that repeats it', () => {
    const tools = ['search', 'search', 'python', 'browser.open', 'weigh_bridge', '?'];
    const executed_tools = tools.map((type, index) => ({ index, type }));
    const toolUses = {
      ...{ web_search: 2, code_execution: 1, browser_search: 1 },
      ...{ weigh_bridge: 1, server_side_tool: 1 },
    };
    const body = { choices: [{ index: 0, message: { executed_tools } }], usage: chatUsage };
    expect(factsOfBody(chatFormat, body).toolUses).toEqual(toolUses);
    const chunk = (executed: object[]) => ({ choices: [{ index: 0, delta: { executed_tools: executed } }] });
    const each = executed_tools.flatMap((tool) => [chunk([tool]), chunk([{ ...tool, output: 'weighed' }])]);
    const chunks = [...each, { choices: [], usage: chatUsage }];
    expect(factsOfStream(chatFormat, chunks).toolUses).toEqual(toolUses);
  });
});

describe('a response', () => {
  const usage = { input_tokens: 3, output_tokens: 2 };
  const calls = [
    { type: 'web_search_call', id: 'a', action: { type: 'search', query: 'x' } },
    { type: 'web_search_call', id: 'b', action: { type: 'open_page', url: 'x' } },
    { type: 'code_interpreter_call', id: 'c', container_id: 'cntr_1' },
    { type: 'code_interpreter_call', id: 'd', container_id: 'cntr_1' },
    { type: 'code_interpreter_call', id: 'e', container_id: 'cntr_2' },
    { type: 'file_search_call', id: 'f' },
    { type: 'function_call', id: 'g' },
    { type: 'message', content: [{ type: 'web_search_call' }] },
  ];
  const toolUses = { web_search: 1, code_interpreter: 2, file_search: 1 };

  it('counts the output items of tools once, in a document and in a stream', () => {
    expect(factsOfBody(responsesFormat, { output: calls, usage }).toolUses).toEqual(toolUses);
    const items = calls.map((item) => ({ type: 'response.output_item.done', item }));
    const added = calls.map((item) => ({ type: 'response.output_item.added', item }));
    const created = { type: 'response.created', response: { id: 'r', status: 'in_progress', usage: null } };
    expect(factsOfStream(responsesFormat, [created, ...added, ...items])).toMatchObject({
      toolUses,
      usage: undefined,
      isFinal: false,
    });
    const completed = {
      type: 'response.completed',
      response: { id: 'r', status: 'completed', output: calls, usage, service_tier: 'flex' },
    };
    expect(factsOfStream(responsesFormat, [created, ...items, completed])).toMatchObject({
      toolUses,
      isFinal: true,
      said: { serviceTier: 'flex' },
    });
  });

  it('takes the larger of items and tool_usage', () => {
    const body = { output: calls, usage, tool_usage: { web_search: { num_requests: 4 }, image_gen: {} } };
    expect(factsOfBody(responsesFormat, body).toolUses).toEqual({ ...toolUses, web_search: 4 });
  });

  it('bills images by the tokens of the model that made them', () => {
    const tool_usage = {
      image_gen: {
        input_tokens: 10,
        output_tokens: 20,
        output_tokens_details: { image_tokens: 20 },
      },
    };
    const tokens = { inputTokens: 10, outputTokens: 0, outputImageTokens: 20 };
    const others = (more: object) => factsOfBody(responsesFormat, { usage, tool_usage, ...more }).others;
    expect(others({ output: [{ type: 'image_generation_call', model: 'gpt-image-2' }] })).toMatchObject([
      { model: 'gpt-image-2', tokens },
    ]);
    expect(others({ tools: [{ type: 'image_generation', model: 'gpt-image-1-mini' }] })).toMatchObject([
      { model: 'gpt-image-1-mini', tokens },
    ]);
    expect(others({})).toMatchObject([{ model: 'gpt-image-1', tokens }]);
  });

  it.each(['queued', 'in_progress'])('has no usage while it is %s', (status) => {
    const zero = { input_tokens: 0, output_tokens: 0 };
    const facts = factsOfBody(responsesFormat, { id: 'r', status, usage: zero, service_tier: 'auto' });
    expect(facts).toMatchObject({ pending: true, usage: undefined, said: {}, isFinal: false });
  });
});

describe('a message', () => {
  const usage = {
    input_tokens: 3,
    output_tokens: 2,
    service_tier: 'priority',
    speed: 'fast',
    inference_geo: 'us',
    server_tool_use: { web_search_requests: 2, web_fetch_requests: 1, code_execution_requests: 1 },
  };
  const facts = {
    said: { serviceTier: 'priority', speed: 'fast', geography: 'us' },
    toolUses: { web_search: 2, web_fetch: 1, code_execution: 1 },
    model: 'claude-x',
    isFinal: true,
  };

  it('says its conditions and its uses of tools, in a document and in a stream', () => {
    expect(factsOfBody(messagesFormat, { model: 'claude-x', usage })).toMatchObject(facts);
    const { server_tool_use, ...start } = usage;
    const search = { type: 'server_tool_use', name: 'web_search', input: {} };
    const events = [
      { type: 'message_start', message: { id: 'm', model: 'claude-x', usage: start } },
      { type: 'content_block_start', content_block: search },
    ];
    expect(factsOfStream(messagesFormat, events)).toMatchObject({
      toolUses: { web_search: 1 },
      partialUsage: { inputTokens: 3 },
      isFinal: false,
    });
    const delta = {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn' },
      usage: { output_tokens: 2, server_tool_use },
    };
    expect(factsOfStream(messagesFormat, [...events, delta])).toMatchObject(facts);
  });

  it.each([{}, { usage: null }])('is not final by the usage of its start: %j', (report) => {
    const events = [
      { type: 'message_start', message: { id: 'm', usage: { input_tokens: 3, output_tokens: 1 } } },
      // The inner member has the event read.
      { type: 'message_delta', delta: { stop_reason: 'end_turn', x: { usage: 1 } }, ...report },
    ];
    expect(factsOfStream(messagesFormat, events)).toMatchObject({
      usage: undefined,
      partialUsage: { inputTokens: 3, outputTokens: 1 },
      isFinal: false,
    });
  });

  it('names the fallback that answered, and what the top-level usage leaves out', () => {
    const iterations = [
      { type: 'compaction', input_tokens: 100, output_tokens: 50 },
      { type: 'fallback_message', model: 'claude-y', input_tokens: 3, output_tokens: 2 },
    ];
    expect(factsOfBody(messagesFormat, { model: 'claude-x', usage: { ...usage, iterations } })).toMatchObject(
      {
        model: 'claude-y',
        usage: { inputTokens: 3, outputTokens: 2 },
        others: [{ model: '', tokens: { inputTokens: 100, outputTokens: 50 } }],
      },
    );
  });
});
