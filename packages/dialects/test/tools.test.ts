import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { translateError } from '../src/translateAnswer.ts';
import type { AnswerPlan, Translation } from '../src/translateRequest.ts';
import { type Answer, answerOptions, foldedAnswer, translatedStream, vendorStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { targetOf, translate } from './translating.ts';

const NOTHING: Answer = { reasoning: [], opaque: '', text: [], calls: [] };

function translated(translation: Translation): { body: ReturnType<typeof JSON.parse>; plan: AnswerPlan } {
  if (translation.kind === 'refused') throw new Error(`refused: ${JSON.stringify(translation.losses)}`);
  return { body: JSON.parse(translation.body), plan: translation.answer };
}

const calling = (name: string, ...input: string[]): Answer => ({
  ...NOTHING,
  calls: [{ id: 'call_1', name, input }],
});

describe('a freeform tool on a vendor that has functions only', () => {
  const tools = [
    {
      type: 'custom',
      name: 'apply_patch',
      description: 'Patches.',
      format: { type: 'grammar', syntax: 'lark', definition: 'g' },
    },
  ];
  const request = { input: 'x', tools, tool_choice: { type: 'custom', name: 'apply_patch' } };

  it.each(['messages', 'chat', 'gemini'] as const)('is a function with one string there: %s', (format) => {
    const { body } = translated(translate('responses', request, targetOf(format)));
    const text = JSON.stringify(body);
    expect(text).toContain('"input":{"type":"string"}');
    expect(text).toContain('lark grammar:\\ng');
    expect(text).not.toContain('"custom"');
  });

  it.each(['messages', 'chat', 'gemini'] as const)(
    'is called as a freeform tool here: %s',
    async (format) => {
      const { plan } = translated(translate('responses', request, targetOf(format)));
      const pieces = ['{"inp', 'ut": "*** Begin\\n+\\u00e9\\ud83d', '\\ude00 \\"q', '\\"\\n"', '}'];
      const input = format === 'gemini' ? [pieces.join('')] : pieces;
      const stream = vendorStream(format, calling('apply_patch', ...input));
      const options = answerOptions(format, 'responses', { changes: plan.changes });
      const expected = expect.objectContaining({
        type: 'custom_tool_call',
        name: 'apply_patch',
        call_id: 'call_1',
        input: '*** Begin\n+é😀 "q"\n',
      });
      expect(await answerBySdk('responses', translatedStream(stream, options))).toMatchObject({
        output: [expected],
      });
      expect(JSON.parse(foldedAnswer(stream, options).body).output).toEqual([expected]);
    },
  );

  it('shows what a model wrote instead, and passes as it is where the vendor has it', () => {
    const { plan } = translated(translate('responses', request, targetOf('messages')));
    const stream = vendorStream('messages', calling('apply_patch', '{"patch":', '"x"}'));
    const options = answerOptions('messages', 'responses', { changes: plan.changes });
    expect(JSON.parse(foldedAnswer(stream, options).body).output[0].input).toBe('{"patch":"x"}');
    const chat = {
      messages: [{ role: 'user', content: 'x' }],
      tools: [{ type: 'custom', custom: { name: 'a' } }],
    };
    const { body } = translated(translate('chat', chat, targetOf('responses')));
    expect(body.tools).toEqual([{ type: 'custom', name: 'a', format: { type: 'text' } }]);
  });
});

describe('structured output on a vendor that has none', () => {
  const schema = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };
  const body = {
    max_tokens: 99,
    messages: [{ role: 'user', content: 'x' }],
    response_format: { type: 'json_schema', json_schema: { name: 'out', schema } },
  };

  it('is a forced tool there, and a text here', async () => {
    const translation = translate('chat', body, targetOf('messages'));
    const { body: sent, plan } = translated(translation);
    expect(sent.tool_choice).toEqual({ type: 'tool', name: 'structured_output' });
    expect(sent.tools[0].input_schema).toEqual(schema);
    expect(translation.losses).toEqual([
      expect.objectContaining({ path: 'response_format', verdict: 'changed' }),
    ]);
    const stream = vendorStream('messages', calling('structured_output', '{"a":', ' 1.0}'));
    const options = answerOptions('messages', 'chat', { changes: plan.changes });
    const [choice] = JSON.parse(foldedAnswer(stream, options).body).choices;
    expect(choice).toMatchObject({ finish_reason: 'stop', message: { content: '{"a": 1.0}' } });
    const bySdk = await answerBySdk('chat', translatedStream(stream, options));
    expect(bySdk).toMatchObject({ choices: [{ finish_reason: 'stop', message: { content: '{"a": 1.0}' } }] });
  });

  it('lets the model call other tools before, and is refused where another call is forced', () => {
    const tools = [{ type: 'function', function: { name: 'a', parameters: schema } }];
    const { body: sent, plan } = translated(translate('chat', { ...body, tools }, targetOf('messages')));
    expect(sent.tool_choice).toEqual({ type: 'any' });
    const stream = vendorStream('messages', calling('a', '{}'));
    const options = answerOptions('messages', 'chat', { changes: plan.changes });
    expect(JSON.parse(foldedAnswer(stream, options).body).choices[0].finish_reason).toBe('tool_calls');
    const forced = { ...body, tools, tool_choice: 'required' };
    expect(translate('chat', forced, targetOf('messages')).kind).toBe('refused');
  });

  it('is sent where the vendor has it', () => {
    const { body: sent } = translated(translate('chat', body, targetOf('gemini')));
    expect(sent.generationConfig).toEqual({
      maxOutputTokens: 99,
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    });
    const own = targetOf('messages', { structuredOutput: true });
    const closed = { ...schema, required: ['a'], additionalProperties: false };
    const asked = {
      ...body,
      response_format: { type: 'json_schema', json_schema: { name: 'o', schema: closed } },
    };
    const { body: other } = translated(translate('chat', asked, own));
    expect(other.output_config.format).toEqual({ type: 'json_schema', schema: closed });
    // Messages take closed schemas only, and a tool any.
    expect(translated(translate('chat', body, own)).body.tool_choice).toMatchObject({ type: 'tool' });
    const some = { ...body, response_format: { type: 'json_object' } };
    expect(translated(translate('chat', some, own)).body.tool_choice).toMatchObject({ type: 'tool' });
  });
});

describe('a hosted tool', () => {
  const image = { type: 'image_generation' };
  const search = { type: 'web_search' };

  it('is dropped where the vendor has none, refused where the choice forces it, else the vendor’s own', () => {
    const asked = { input: 'x', max_output_tokens: 99, tools: [image] };
    const dropped = translate('responses', asked, targetOf('messages'));
    expect(dropped.losses).toEqual([expect.objectContaining({ path: 'tools.0', verdict: 'dropped' })]);
    const forced = { input: 'x', tools: [image], tool_choice: image };
    const refused = translate('responses', forced, targetOf('messages'));
    expect(refused.kind).toBe('refused');
    expect(refused.losses).toEqual([expect.objectContaining({ path: 'tool_choice' })]);
    const { body } = translated(
      translate('responses', { input: 'x', tools: [search] }, targetOf('messages')),
    );
    expect(body.tools).toEqual([{ type: 'web_search_20250305', name: 'web_search' }]);
    const { body: gemini } = translated(
      translate('responses', { input: 'x', tools: [search] }, targetOf('gemini')),
    );
    expect(gemini.tools).toEqual([{ googleSearch: {} }]);
  });
});

describe('the limit of output tokens', () => {
  it.each([
    ['messages', 'max_tokens'],
    ['responses', 'max_output_tokens'],
    ['chat', 'max_completion_tokens'],
    ['gemini', 'maxOutputTokens'],
  ] as const)('is one that the model takes: %s', (format, member) => {
    const target = targetOf(format, { minTokens: 16, maxTokens: 1_000, defaultTokens: 500 });
    const limitOf = (max_tokens: number | undefined) => {
      const { body } = translated(
        translate('chat', { max_tokens, messages: [{ role: 'user', content: 'x' }] }, target),
      );
      return (body.generationConfig ?? body)[member];
    };
    expect([1, 16, 1_000, 1_001].map(limitOf)).toEqual([16, 16, 1_000, 1_000]);
    expect(limitOf(undefined)).toBe(500);
  });
});

describe('instructions', () => {
  it.each(['messages', 'gemini'] as const)(
    'are a message of the user if nothing else is said: %s',
    (format) => {
      const translation = translate(
        'chat',
        { max_tokens: 99, messages: [{ role: 'system', content: 'Say hi.' }] },
        targetOf(format),
      );
      const { body } = translated(translation);
      expect(JSON.stringify(body.messages ?? body.contents)).toContain('"role":"user"');
      expect(JSON.stringify(body.messages ?? body.contents)).toContain('"text":"Say hi."');
      expect(translation.losses).toEqual([
        expect.objectContaining({ path: 'messages.0.content', verdict: 'changed' }),
      ]);
    },
  );
});

describe('the names of tools', () => {
  it.each(['messages', 'responses', 'chat'] as const)(
    'are made valid for the vendor, and given back: %s',
    (format) => {
      const name = 'files.read:v1';
      const request = {
        contents: [{ role: 'user', parts: [{ text: 'x' }] }],
        tools: [{ functionDeclarations: [{ name, parametersJsonSchema: { type: 'object' } }] }],
        toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [name] } },
      };
      const { body, plan } = translated(translate('gemini', request, targetOf(format)));
      const [sent] = [...plan.changes.names.keys()];
      expect(sent).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect(JSON.stringify(body)).not.toContain(name);
      expect(JSON.stringify(body.tool_choice)).toContain(sent);
      const stream = vendorStream(format, calling(sent ?? '', '{}'));
      const answer = foldedAnswer(stream, answerOptions(format, 'gemini', { changes: plan.changes }));
      expect(JSON.parse(answer.body).candidates[0].content.parts[0].functionCall.name).toBe(name);
    },
  );

  it('have their namespace again when they are called', () => {
    const tools = [
      { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find', parameters: {} }] },
    ];
    const { body, plan } = translated(translate('responses', { input: 'x', tools }, targetOf('messages')));
    expect(body.tools[0].name).toBe('crm__find');
    const stream = vendorStream('messages', calling('crm__find', '{}'));
    const options = answerOptions('messages', 'responses', {
      changes: plan.changes,
      namespaces: plan.namespaces,
    });
    expect(JSON.parse(foldedAnswer(stream, options).body).output[0]).toMatchObject({
      name: 'find',
      namespace: 'crm',
    });
  });
});

describe('an error in another dialect', () => {
  const ERRORS: Readonly<Record<Format, string>> = {
    messages: '{"type":"error","error":{"type":"rate_limit_error","message":"Too fast."}}',
    responses: '{"error":{"message":"Too fast.","type":"requests","code":"rate_limit_exceeded"}}',
    chat: '{"message":"Too fast."}',
    gemini: '{"error":{"code":429,"message":"Too fast.","status":"RESOURCE_EXHAUSTED"}}',
  };
  const SHAPES: Readonly<Record<Format, object>> = {
    messages: { type: 'error', error: { type: 'rate_limit_error', message: 'Too fast.' } },
    responses: { error: { message: 'Too fast.', type: 'rate_limit_exceeded' } },
    chat: { error: { message: 'Too fast.', type: 'rate_limit_exceeded' } },
    gemini: { error: { code: 429, message: 'Too fast.', status: 'RESOURCE_EXHAUSTED' } },
  };

  it.each(FORMATS)('has the vendor’s message and status: %s', (from) => {
    for (const to of FORMATS) {
      expect(JSON.parse(translateError(ERRORS[from], 429, from, to))).toMatchObject(SHAPES[to]);
      expect(JSON.parse(translateError('<html>busy</html>', 429, from, to))).toMatchObject({
        error: { message: '<html>busy</html>' },
      });
    }
  });
});

describe('a caller that takes one call at a time', () => {
  const calls = ['a', 'b'].map((id) => ({ id, name: 'f', input: ['{"x":', `"${id}"}`] }));
  const two: Answer = { ...NOTHING, text: ['hi'], calls };
  const request = {
    messages: [{ role: 'user', content: 'x' }],
    tools: [{ type: 'function', function: { name: 'f' } }],
    parallel_tool_calls: false,
  };

  it('gets the first call of a vendor that can’t be told', () => {
    const { plan } = translated(translate('chat', request, targetOf('gemini')));
    const options = answerOptions('gemini', 'chat', { changes: plan.changes });
    const stream = vendorStream('gemini', two);
    const [{ message, finish_reason }] = JSON.parse(foldedAnswer(stream, options).body).choices;
    expect(message.tool_calls.map((call: { id: string }) => call.id)).toEqual(['a']);
    expect([message.content, finish_reason]).toEqual(['hi', 'tool_calls']);
    expect(translatedStream(stream, options)).not.toContain('\\"b\\"');
  });

  it('gets all of them if it says that it takes several, or nothing', () => {
    for (const parallel_tool_calls of [true, undefined]) {
      const { plan } = translated(translate('chat', { ...request, parallel_tool_calls }, targetOf('gemini')));
      const options = answerOptions('gemini', 'chat', { changes: plan.changes });
      const { body } = foldedAnswer(vendorStream('gemini', two), options);
      expect(JSON.parse(body).choices[0].message.tool_calls).toHaveLength(2);
    }
  });
});

describe('a tool that the caller runs, whose calls have a form of their own', () => {
  const search = {
    type: 'tool_search',
    execution: 'client',
    description: 'Finds.',
    parameters: { type: 'object' },
  };
  const request = { input: 'x', tools: [{ type: 'local_shell' }, search] };
  const OTHERS = ['messages', 'chat', 'gemini'] as const;

  function answered(format: Format, name: string, input: string): { output: object[]; streamed: object } {
    const { plan } = translated(translate('responses', request, targetOf(format)));
    const { changes, ownForms } = plan;
    const options = answerOptions(format, 'responses', { changes, ownForms });
    const stream = vendorStream(format, calling(name, input));
    const written = translatedStream(stream, options);
    const last = written.split('\n').findLast((line) => line.includes('"response.completed"')) ?? '';
    const data = /data: (.*)/.exec(written.slice(written.lastIndexOf('data: ')))?.[1] ?? last;
    return {
      output: JSON.parse(foldedAnswer(stream, options).body).output,
      streamed: JSON.parse(data).response.output,
    };
  }

  it.each(OTHERS)('runs a command in the shell of the caller: %s', (format) => {
    const { output, streamed } = answered(format, 'local_shell', '{"input":"ls -l \\"a\\""}');
    const action = { type: 'exec', command: ['bash', '-lc', 'ls -l "a"'], env: {} };
    expect(output).toEqual([
      expect.objectContaining({ type: 'local_shell_call', call_id: 'call_1', status: 'completed', action }),
    ]);
    expect(streamed).toEqual(output);
  });

  it.each(OTHERS)('searches the tools of the caller, which has them from then on: %s', (format) => {
    const { output } = answered(format, 'tool_search', '{"query":"mail"}');
    expect(output).toEqual([
      expect.objectContaining({
        type: 'tool_search_call',
        execution: 'client',
        call_id: 'call_1',
        arguments: { query: 'mail' },
      }),
    ]);
    const tool = { type: 'function', name: 'send', parameters: { type: 'object', required: ['to'] } };
    const found = { type: 'tool_search_output', execution: 'client', call_id: 'call_1', tools: [tool, tool] };
    const next = { ...request, input: [{ role: 'user', content: 'x' }, ...output, found] };
    const { body } = translated(translate('responses', next, targetOf(format)));
    const text = JSON.stringify(body);
    expect(text.split('"required":["to"]')).toHaveLength(2);
    expect(text).toContain('These tools can be called now: send');
    expect(text).toContain('mail');
  });

  it('goes back as it was called, with its result', () => {
    const call = (command: string[]) => {
      const action = { type: 'exec', command, env: {} };
      return { type: 'local_shell_call', id: 'lsh_1', call_id: 'call_1', status: 'completed', action };
    };
    const done = { type: 'local_shell_call_output', id: 'call_1', output: 'files' };
    for (const [command, input] of [
      [['bash', '-lc', 'ls'], 'ls'],
      [['ls', '-l'], '["ls","-l"]'],
    ] as const) {
      const next = { ...request, input: [{ role: 'user', content: 'x' }, call([...command]), done] };
      const { body } = translated(translate('responses', next, targetOf('messages')));
      expect(body.messages[1].content).toEqual([
        { type: 'tool_use', id: 'call_1', name: 'local_shell', input: { input } },
      ]);
      expect(body.messages[2].content[0]).toMatchObject({
        tool_use_id: 'call_1',
        content: [{ text: 'files' }],
      });
    }
  });
});
