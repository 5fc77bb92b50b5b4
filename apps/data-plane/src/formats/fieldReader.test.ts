import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { readGeminiRequest } from './geminiRequest.ts';
import { readGenerationRequest } from './generationRequest.ts';
import { GEMINI_OPERATIONS, OPERATIONS, type Operation } from './operation.ts';
import { RequestBody } from './requestBody.ts';
import { type Bound, type Fields, MAX_BATCH, MAX_MODELS } from './requestFields/field.ts';

const read = (operation: Operation, text: string) =>
  operation.dialect === 'gemini'
    ? readGeminiRequest({ operation, model: 'm', stream: false, isArray: false }, bodyOf(text))
    : readGenerationRequest(operation, bodyOf(text));
const bodyOf = (text: string) => new RequestBody([Buffer.from(text)]);

function refusal(
  operation: Operation,
  text: string,
): { code?: string; param?: string | undefined } | undefined {
  try {
    read(operation, text);
    return undefined;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { code: error.code, param: error.param };
  }
}

/** Lists, which are bounded by their items, and fields of which only their kind or presence matters. */
const UNREAD = [
  ...['models', 'fallbacks', 'prompt', 'tools', 'reasoning', 'reasoning_effort', 'thinking', 'thread'],
  ...['modalities', 'audio', 'max_tool_calls', 'diagnostics'],
];

function boundFields({ requestFields, fields }: Operation): [string, Bound][] {
  return Object.entries(requestFields as Fields).flatMap(([name, { bound }]) =>
    bound && fields.has(name) && !UNREAD.includes(name) ? [[name, bound] as [string, Bound]] : [],
  );
}

describe('a field that the service reads', () => {
  const cases = OPERATIONS.flatMap((operation) =>
    boundFields(operation).map(([name, bound]) => ({ operation, path: operation.path, name, bound })),
  );
  it('has a bound in its table', () => {
    for (const { path, fields } of OPERATIONS) {
      const bounded = cases.filter((one) => one.path === path).map(({ name }) => name);
      expect([path, [...fields].filter((name) => !bounded.includes(name) && !UNREAD.includes(name))]).toEqual(
        [path, []],
      );
    }
  });

  it.each(cases)('$path $name passes up to its bound, and is refused beyond it, whatever its kind', (one) => {
    const { operation, name, bound } = one;
    const body = (value: string) =>
      name === 'model' ? `{"model":${value}}` : `{"model":"a/b","${name}":${value}}`;
    const most = bound.bytes;
    const within = [`"${'x'.repeat(most)}"`, `"${'\\u0041'.repeat(most)}"`, `"${'é'.repeat(most / 2)}"`];
    for (const text of within) expect(refusal(operation, body(text))).toBeUndefined();
    const beyond = [
      `"${'x'.repeat(most + 1)}"`,
      `"${'\\u0041'.repeat(most + 1)}"`,
      `"${'é'.repeat(most / 2 + 1)}"`,
      '9'.repeat(most + 1),
      `[${'{},'.repeat(most)}{}]`,
      `{"x":"${'x'.repeat(most)}"}`,
      '['.repeat(most) + ']'.repeat(most),
    ];
    for (const value of beyond) {
      expect([value.slice(0, 9), refusal(operation, body(value))]).toEqual([
        value.slice(0, 9),
        { code: 'field_out_of_bounds', param: name },
      ]);
    }
  });

  it('names its bound and what is accepted', () => {
    const [chat] = OPERATIONS as readonly [Operation];
    expect(() => read(chat, `{"model":"a/b","n":${'1'.repeat(65)}}`)).toThrow(
      'n is larger than 64 bytes. Accepted: a number of at most 64 bytes.',
    );
  });
});

describe("Gemini's fields", () => {
  const [generate, count, , batch] = GEMINI_OPERATIONS as readonly [
    Operation,
    Operation,
    Operation,
    Operation,
  ];
  const long = `"${'9'.repeat(5_000)}"`;
  it.each([
    [generate, `{"generationConfig":{"candidateCount":${long}}}`, 'generationConfig.candidateCount'],
    [generate, `{"generation_config":{"max_output_tokens":${long}}}`, 'generationConfig.maxOutputTokens'],
    [generate, `{"serviceTier":${long}}`, 'serviceTier'],
    [generate, `{"model":${long}}`, 'model'],
    [count, `{"generateContentRequest":{"model":${long}}}`, 'generateContentRequest.model'],
    [batch, `{"requests":[{},{"model":${long}}]}`, 'requests[1].model'],
    [batch, `{"requests":[${'0,'.repeat(MAX_BATCH)}0]}`, 'requests'],
  ])('are bounded: %#', (operation, text, param) => {
    expect(refusal(operation, text)).toEqual({ code: 'field_out_of_bounds', param });
  });
  it('take as many requests as the bound says', () => {
    expect(refusal(batch, `{"requests":[${'0,'.repeat(MAX_BATCH - 1)}0]}`)).toBeUndefined();
  });
});

describe('a list', () => {
  it.each(
    OPERATIONS.flatMap(({ fields, ...operation }) =>
      ['models', 'fallbacks'].flatMap((name) =>
        fields.has(name) ? [{ operation: { fields, ...operation }, path: operation.path, name }] : [],
      ),
    ),
  )('of other models is counted while it is read: $path $name', ({ operation, name }) => {
    const body = (count: number) =>
      `{"model":"a/b","${name}":[${Array.from({ length: count }, () => '"a/b"').join()}]}`;
    expect(refusal(operation, body(MAX_MODELS))).toBeUndefined();
    expect(refusal(operation, body(MAX_MODELS + 1))).toEqual({ code: 'field_out_of_bounds', param: name });
  });

  it('of prompts is counted while it is read', () => {
    const completions = OPERATIONS.find(({ path }) => path === '/completions') as Operation;
    const body = (prompt: string) => `{"model":"a/b","prompt":[${prompt}]}`;
    expect(refusal(completions, body(`${'"a",'.repeat(MAX_BATCH)}"a"`))?.param).toBe('prompt');
    // Tokens of one prompt.
    expect(refusal(completions, body(`${'1,'.repeat(10 * MAX_BATCH)}1`))).toBeUndefined();
  });
});
