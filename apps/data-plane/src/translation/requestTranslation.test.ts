import { create } from '@bufbuild/protobuf';
import { ConnectorSchema, Dialect, Route } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { RoutableConnector } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { Target } from '../control/target.ts';
import { readGeminiRequest } from '../formats/geminiRequest.ts';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import {
  CHAT_COMPLETIONS,
  COUNT_CONTENT,
  COUNT_TOKENS,
  GENERATE_CONTENT,
  INPUT_TOKENS,
  MESSAGES,
  type Operation,
  RESPONSES,
} from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { inTranslation } from './notTranslatable.ts';
import { isUncounted, operationInstead, RequestTranslation } from './requestTranslation.ts';

function connector(provider: string, ...routes: Route[]): RoutableConnector {
  const dialect = Dialect.OPENAI;
  const message = create(ConnectorSchema, { id: `con_${provider}`, provider, dialect, routes });
  return { ...message, serves: () => true, negotiated: new Map() };
}

const OPENAI = connector('openai', Route.CHAT_COMPLETIONS, Route.RESPONSES);
const AZURE = connector('azure', Route.CHAT_COMPLETIONS, Route.RESPONSES);
const ANTHROPIC = connector('anthropic', Route.MESSAGES);
const GEMINI = connector('gemini', Route.CHAT_COMPLETIONS, Route.GENERATE_CONTENT);
const XAI = connector('xai', Route.CHAT_COMPLETIONS);
const VOYAGE = connector('voyage', Route.EMBEDDINGS);

const said = (text: string) => ({ role: 'user', content: [{ type: 'text', text }] });

function translation(operation: Operation, body: object, policy: 'lenient' | 'strict' = 'lenient') {
  const taken: number[] = [];
  const memory = { takeBody: (bytes: number) => void taken.push(bytes) };
  const whole = new RequestBody([Buffer.from(JSON.stringify({ model: 'asked', ...body }))]);
  const path = { operation, model: 'asked', stream: false, isArray: false };
  const generation =
    operation.dialect === 'gemini'
      ? readGeminiRequest(path, new RequestBody([Buffer.from(JSON.stringify(body))]))
      : readGenerationRequest(operation, whole);
  const scope = { key: Buffer.alloc(32), principal: 'ada' };
  return { taken, one: new RequestTranslation(generation, scope, { policy, memory }) };
}

function at(connector: RoutableConnector): Target {
  const model = { id: 'p/m', provider: connector.provider, capabilities: [], maxOutputTokens: undefined };
  return { model, connector } as unknown as Target;
}

function refusal(run: () => unknown): AppError {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('the operation in place of a counter', () => {
  it.each([
    [OPENAI, COUNT_TOKENS, INPUT_TOKENS],
    [GEMINI, COUNT_TOKENS, COUNT_CONTENT],
    [ANTHROPIC, INPUT_TOKENS, COUNT_TOKENS],
    [ANTHROPIC, COUNT_CONTENT, COUNT_TOKENS],
  ])('is the counter of the vendor', (target, asked, instead) => {
    expect([operationInstead(target, asked), isUncounted(target, asked)]).toEqual([instead, false]);
  });

  it.each([
    [XAI, COUNT_TOKENS],
    [AZURE, COUNT_TOKENS],
    [XAI, COUNT_CONTENT],
  ])('is none where the vendor has no counter', (target, asked) => {
    expect([operationInstead(target, asked), isUncounted(target, asked)]).toEqual([undefined, true]);
  });

  it('is none where the vendor counts by itself, or for what is no counter', () => {
    expect(isUncounted(ANTHROPIC, COUNT_TOKENS)).toBe(false);
    expect(isUncounted(VOYAGE, MESSAGES)).toBe(false);
  });
});

describe('a count', () => {
  it('is asked for by what the counter takes', () => {
    const { one } = translation(COUNT_TOKENS, { messages: [said('x')], stop_sequences: ['x'] }, 'strict');
    const { generation } = one.translate(at(OPENAI), INPUT_TOKENS, 'gpt');
    const body = JSON.parse(generation.body.toBuffer().toString());
    expect(Object.keys(body).sort()).toEqual(expect.arrayContaining(['input', 'model']));
    expect(body).not.toHaveProperty('store');
    expect(body.model).toBe('gpt');
  });

  it('of a whole request of Gemini is one of its contents', () => {
    const request = { model: 'models/asked', contents: [{ role: 'user', parts: [{ text: 'x' }] }] };
    const { one } = translation(COUNT_CONTENT, { generateContentRequest: request });
    const { generation } = one.translate(at(ANTHROPIC), COUNT_TOKENS, 'claude');
    expect(JSON.parse(generation.body.toBuffer().toString())).toMatchObject({
      model: 'claude',
      messages: [{ role: 'user' }],
    });
  });
});

describe('a translation', () => {
  it('is counted in what the request holds, as it is read and for each attempt', () => {
    const { one, taken } = translation(MESSAGES, { max_tokens: 9, messages: [said('x'.repeat(1_000))] });
    one.translate(at(OPENAI), RESPONSES, 'gpt');
    one.translate(at(OPENAI), RESPONSES, 'gpt');
    expect(taken).toHaveLength(3);
    for (const bytes of taken) expect(bytes).toBeGreaterThan(2_000);
  });

  it('of too many parts is refused', () => {
    const parts = (count: number) => {
      const content = Array.from({ length: count }, () => ({ type: 'text', text: '' }));
      return translation(MESSAGES, { max_tokens: 9, messages: [{ role: 'user', content }] }).one;
    };
    parts(19_999).translate(at(OPENAI), RESPONSES, 'gpt');
    const { kind, message } = refusal(() => parts(20_000).translate(at(OPENAI), RESPONSES, 'gpt'));
    expect([kind, message]).toEqual(['invalid_request', expect.stringContaining('20000')]);
  });

  const deep = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
  it.each([
    [COUNT_TOKENS, INPUT_TOKENS, OPENAI, { messages: [said('x')] }],
    [MESSAGES, RESPONSES, OPENAI, { max_tokens: 9, messages: [said('x')] }],
    [RESPONSES, MESSAGES, ANTHROPIC, { input: 'x' }],
    [CHAT_COMPLETIONS, MESSAGES, ANTHROPIC, { messages: [{ role: 'user', content: 'x' }] }],
    [GENERATE_CONTENT, MESSAGES, ANTHROPIC, { contents: [{ role: 'user', parts: [{ text: 'x' }] }] }],
  ])(
    'of too many values, or of too deep ones, is refused with its bounds: %#',
    (asked, instead, target, body) => {
      const translated = (more: unknown) =>
        translation(asked, { ...body, x_more: more }).one.translate(at(target), instead, 'other');
      for (const value of [new Array(250_000).fill(0), deep(200)]) {
        const { kind, code, message } = refusal(() => translated(value));
        expect([kind, code]).toEqual(['invalid_request', 'not_translatable']);
        expect(message).toMatch(/20000 .*250000 .*128 deep.* Shorten it, or use a model/);
      }
      translated(new Array(200_000).fill(0));
      translated(deep(100));
    },
  );

  it('of a long conversation with tools and images is made', () => {
    const image = { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_000_000) };
    const turns = Array.from({ length: 500 }, (_, at) => [
      said(`Weigh ${at}.`),
      { role: 'assistant', content: [{ type: 'tool_use', id: `t${at}`, name: 'weigh', input: { at } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: `t${at}`, content: '40' }] },
      { role: 'assistant', content: [{ type: 'text', text: 'It weighs 40.' }] },
    ]).flat();
    const look = { role: 'user', content: [1, 2, 3].map(() => ({ type: 'image', source: image })) };
    const schema = { type: 'object', properties: { at: { type: 'integer' } } };
    const tools = Array.from({ length: 100 }, (_, at) => ({ name: `t${at}`, input_schema: schema }));
    tools.push({ name: 'weigh', input_schema: schema });
    const { one } = translation(MESSAGES, { max_tokens: 9, messages: [...turns, look], tools });
    const { generation } = one.translate(at(OPENAI), RESPONSES, 'gpt');
    const sent = JSON.parse(generation.body.toBuffer().toString());
    expect(sent.tools).toHaveLength(101);
    expect(sent.input).toHaveLength(2_001);
    expect(generation.body.length).toBeGreaterThan(3_000_000);
  });

  it('that is strict is refused for what would be dropped', () => {
    const body = { max_tokens: 9, messages: [said('x')], service_tier: 'auto' };
    translation(MESSAGES, body).one.translate(at(OPENAI), RESPONSES, 'gpt');
    const strict = translation(MESSAGES, body, 'strict').one;
    const { code, message, details } = refusal(() => strict.translate(at(OPENAI), RESPONSES, 'gpt'));
    expect([code, message]).toEqual(['not_translatable', expect.stringContaining('is strict')]);
    expect(details.fields).toContainEqual(expect.objectContaining({ path: 'service_tier' }));
  });
});

it('a refusal of what only the vendor gets says so', () => {
  const error = new AppError('invalid_request', 'not_allowed_in_hard_mode', 'No.', { param: 'a.b' });
  expect(inTranslation(error, 'openai/gpt-5')).toMatchObject({
    code: 'not_allowed_in_hard_mode',
    param: 'model',
    message: expect.stringMatching(/openai\/gpt-5.*No\..*a\.b is the vendor's/),
  });
  expect(inTranslation(new TypeError('x'), 'm')).toBeInstanceOf(TypeError);
});

describe('stop sequences, where the vendor has responses and chat completions', () => {
  const REASONS = ['tools', 'reasoning'];
  const rows: readonly [readonly string[], number, Operation | 'refused'][] = [
    [['tools'], 1, CHAT_COMPLETIONS],
    [['tools'], 4, CHAT_COMPLETIONS],
    [['tools'], 5, 'refused'],
    [['tools'], 0, RESPONSES],
    [['tools', 'stop_sequences_0'], 1, 'refused'],
    [REASONS, 1, 'refused'],
    [REASONS, 0, RESPONSES],
    [[...REASONS, 'stop_sequences_2'], 2, CHAT_COMPLETIONS],
    [[], 1, CHAT_COMPLETIONS],
  ];

  it.each(rows)('of a model with %j, %i of them: %o', (capabilities, count, expected) => {
    const stops = Array.from({ length: count }, (_, n) => `END${n}`);
    for (const [asked, body] of [
      [MESSAGES, { messages: [said('x')], max_tokens: 9, stop_sequences: stops }],
      [
        GENERATE_CONTENT,
        { contents: [{ parts: [{ text: 'x' }] }], generationConfig: { stopSequences: stops } },
      ],
    ] as const) {
      const { model } = at(OPENAI);
      const { one } = translation(asked, body);
      const translate = () =>
        one.translate({ model: { ...model, capabilities }, connector: OPENAI }, RESPONSES, 'gpt');
      if (expected === 'refused') expect(refusal(translate).message).toMatch(/stop sequences/);
      else {
        const { generation, translation: made } = translate();
        expect([made.operation, generation.operation]).toEqual([expected, expected]);
        const { stop } = JSON.parse(generation.body.toBuffer().toString());
        expect(stop).toEqual(count === 0 ? undefined : stops);
      }
    }
  });

  it('are refused where the account has responses only', () => {
    const { one } = translation(MESSAGES, { messages: [said('x')], max_tokens: 9, stop_sequences: ['x'] });
    const alone = at(connector('openai', Route.RESPONSES));
    expect(refusal(() => one.translate(alone, RESPONSES, 'gpt')).message).toMatch(/stop sequences/);
  });
});
