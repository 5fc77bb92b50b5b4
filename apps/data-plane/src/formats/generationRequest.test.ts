import { AppError } from '@weighbridge/errors';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest, upstreamBody } from './generationRequest.ts';
import { isRecord } from './jsonFields.ts';
import { CHAT_COMPLETIONS, MESSAGES, OPERATIONS, RESPONSES } from './operation.ts';
import { RequestBody } from './requestBody.ts';

const bodyOf = (text: string) => new RequestBody([Buffer.from(text)]);
const sent = (text: string, operation = CHAT_COMPLETIONS, asksForUsage = true) =>
  upstreamBody(readGenerationRequest(operation, bodyOf(text)), 'echo', asksForUsage)
    .toBuffer()
    .toString();

function refusal(text: string, operation = CHAT_COMPLETIONS): unknown {
  try {
    readGenerationRequest(operation, bodyOf(text));
    return undefined;
  } catch (error) {
    return error instanceof AppError ? { code: error.code, param: error.param } : error;
  }
}

describe('a body', () => {
  it('reaches the vendor byte for byte, except for the model name', () => {
    const body =
      '{ "messages":[{"content":"\\ud800 {\\"model\\":1}"}],\n"model" : "mock\\/echo", "x":1.0e2,"x":2 }';
    for (const operation of OPERATIONS) {
      expect(sent(body, operation)).toBe(body.replace('"mock\\/echo"', '"echo"'));
    }
  });

  it('asks for usage where a chat streams, and changes nothing else', () => {
    expect(sent('{"model":"mock/echo","stream":true}')).toBe(
      '{"stream_options":{"include_usage":true},"model":"echo","stream":true}',
    );
    expect(
      sent('{"stream_options":{"a":1.0, "include_usage" : false},"model":"mock/echo","stream":true}'),
    ).toBe('{"stream_options":{"a":1.0, "include_usage" : true},"model":"echo","stream":true}');
    expect(sent('{"model":"mock/echo","stream":true,"stream_options":{ "a":1e2 }}')).toBe(
      '{"model":"echo","stream":true,"stream_options":{"include_usage":true, "a":1e2 }}',
    );
    expect(sent('{"stream_options":{ },"model":"mock/echo","stream":true}')).toBe(
      '{"stream_options":{"include_usage":true },"model":"echo","stream":true}',
    );
  });

  it.each(['null', '0', '1e400', '"include_usage"', 'true', '[]', '[{"include_usage":true}]'])(
    'leaves stream_options that are no object to the vendor: %s',
    (options) => {
      const asked = `{"model":"echo","stream":true,"stream_options":${options}}`;
      expect(sent(asked)).toBe(asked);
    },
  );

  it('is unchanged where the vendor reports usage unasked', () => {
    for (const text of [
      '{"model":"echo","stream":true}',
      '{"model":"echo","stream":true,"stream_options":{"include_usage":false}}',
    ]) {
      expect(sent(text, CHAT_COMPLETIONS, false)).toBe(text);
    }
  });

  it('is unchanged where the client asked for usage, does not stream, or usage is always reported', () => {
    const asked = '{"model":"echo","stream":true,"stream_options":{"include_usage":true}}';
    expect(sent(asked)).toBe(asked);
    const plain = '{"model":"echo","stream":false,"stream_options":null}';
    expect(sent(plain)).toBe(plain);
    const streamed = '{"model":"echo","stream":true}';
    expect(sent(streamed, MESSAGES)).toBe(streamed);
    expect(sent(streamed, RESPONSES)).toBe(streamed);
  });

  it('is refused with what is wrong and where', () => {
    expect(refusal('{"model":')).toEqual({ code: 'malformed_json', param: undefined });
    expect(refusal('[1]')).toEqual({ code: 'malformed_json', param: undefined });
    expect(refusal('{"messages":[]}')).toEqual({ code: 'invalid_model', param: 'model' });
    expect(refusal('{"model":5}')).toEqual({ code: 'invalid_model', param: 'model' });
    expect(refusal('{"model":"a/b","model":"c/d"}')).toEqual({ code: 'duplicate_field', param: 'model' });
    expect(refusal('{"stream":true,"str\\u0065am":false,"model":"a/b"}')).toEqual({
      code: 'duplicate_field',
      param: 'stream',
    });
    expect(refusal('{"model":"a/b","stream_options":{"include_usage":1,"include_usage":2}}')).toEqual({
      code: 'duplicate_field',
      param: 'include_usage',
    });
    // A field that only another operation reads is ignored.
    expect(refusal('{"model":"a/b","stream_options":1,"stream_options":2}', MESSAGES)).toBeUndefined();
  });

  it('says whether the response is stored, and which one it continues', () => {
    const read = (text: string) => readGenerationRequest(RESPONSES, bodyOf(text));
    expect(read('{"model":"a/b"}').isStored).toBe(true);
    expect(read('{"model":"a/b","store":false}').isStored).toBe(false);
    expect(read('{"model":"a/b","previous_response_id":"r-1"}').previousResponseId).toBe('r-1');
    expect(read('{"model":"a/b","previous_response_id":null}').previousResponseId).toBeUndefined();
    expect(read('{"model":"a/b","prompt_cache_key":"k"}').promptCacheKey).toBe('k');
    expect(read('{"model":"a/b","prompt_cache_key":5}').promptCacheKey).toBeUndefined();
  });

  it('says whether the response is made in the background', () => {
    const read = (text: string) => readGenerationRequest(RESPONSES, bodyOf(text)).isBackground;
    expect(read('{"model":"a/b","background":true}')).toBe(true);
    expect(read('{"model":"a/b","background":false}')).toBe(false);
    expect(read('{"model":"a/b","background":"true"}')).toBe(false);
    expect(read('{"model":"a/b"}')).toBe(false);
  });

  it('limits the output, and leaves invalid numbers to the vendor', () => {
    const output = (text: string, operation = CHAT_COMPLETIONS) =>
      readGenerationRequest(operation, bodyOf(`{"model":"a/b"${text}}`)).output;
    expect(output('')).toEqual({ maxTokens: undefined, choices: 1 });
    expect(output(',"max_tokens":5,"max_completion_tokens":7,"n":3')).toEqual({ maxTokens: 7, choices: 3 });
    expect(output(',"max_tokens":9', MESSAGES)).toEqual({ maxTokens: 9, choices: 1 });
    expect(output(',"max_output_tokens":9,"n":2', RESPONSES)).toEqual({ maxTokens: 9, choices: 1 });
    expect(output(',"background":true,"max_output_tokens":9', RESPONSES)).toMatchObject({ maxTokens: 9 });
    for (const value of ['null', '"5"', '-5', '0', '1.5', '1e400', '{}'])
      expect(output(`,"max_tokens":${value},"n":${value}`)).toEqual({ maxTokens: undefined, choices: 1 });
    const embeddings = OPERATIONS.find(({ path }) => path === '/embeddings');
    expect(output(',"max_tokens":5', embeddings)).toBeUndefined();
  });

  it('keeps its meaning for the vendor, whatever it contains', () => {
    const own = fc.record(
      {
        stream: fc.boolean(),
        stream_options: fc.oneof(
          fc.constantFrom(null, 1, 'all', ['include_usage']),
          fc.dictionary(fc.string(), fc.jsonValue()),
        ),
      },
      { requiredKeys: [] },
    );
    // What is read has a bound, beyond which it is refused.
    const unread = fc.string().filter((name) => !CHAT_COMPLETIONS.requestFields[name]?.bound);
    const others = fc.dictionary(unread, fc.jsonValue());
    fc.assert(
      fc.property(others, own, fc.constantFrom(undefined, 1, '\t'), (rest, fields, indent) => {
        const text = JSON.stringify({ ...rest, model: 'mock/echo', ...fields }, null, indent);
        const meant = JSON.parse(text);
        const { stream_options: options = {} } = meant;
        if (meant.stream && isRecord(options)) meant.stream_options = { ...options, include_usage: true };
        expect(JSON.parse(sent(text))).toEqual({ ...meant, model: 'echo' });
      }),
    );
  });
});
