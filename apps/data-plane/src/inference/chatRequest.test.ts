import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { readChatRequest, upstreamBody } from './chatRequest.ts';

const sent = (text: string) => upstreamBody(readChatRequest(Buffer.from(text)), 'echo').toString();

function refusal(text: string): unknown {
  try {
    readChatRequest(Buffer.from(text));
    return undefined;
  } catch (error) {
    return error instanceof AppError ? { code: error.code, param: error.param } : error;
  }
}

describe('a chat request', () => {
  it('goes on byte for byte but for the model name', () => {
    const body =
      '{ "messages":[{"content":"\\ud800 {\\"model\\":1}"}],\n"model" : "mock\\/echo", "x":1.0e2,"x":2 }';
    expect(sent(body)).toBe(body.replace('"mock\\/echo"', '"echo"'));
  });

  it('asks for usage where it streams, keeping what else it asked for', () => {
    expect(sent('{"model":"mock/echo","stream":true}')).toBe(
      '{"stream_options":{"include_usage":true},"model":"echo","stream":true}',
    );
    expect(sent('{"stream_options":{"a":1,"include_usage":false},"model":"mock/echo","stream":true}')).toBe(
      '{"stream_options":{"a":1,"include_usage":true},"model":"echo","stream":true}',
    );
    expect(sent('{"stream_options":null,"model":"mock/echo","stream":true}')).toBe(
      '{"stream_options":{"include_usage":true},"model":"echo","stream":true}',
    );
  });

  it('is left alone where the caller asked for usage itself, or does not stream', () => {
    const asked = '{"model":"echo","stream":true,"stream_options":{"include_usage":true}}';
    expect(sent(asked)).toBe(asked);
    const plain = '{"model":"echo","stream":false,"stream_options":null}';
    expect(sent(plain)).toBe(plain);
  });

  it('is refused with what is wrong, and where', () => {
    expect(refusal('{"model":')).toEqual({ code: 'malformed_json', param: undefined });
    expect(refusal('[1]')).toEqual({ code: 'malformed_json', param: undefined });
    expect(refusal('{"messages":[]}')).toEqual({ code: 'invalid_model', param: 'model' });
    expect(refusal('{"model":5}')).toEqual({ code: 'invalid_model', param: 'model' });
    expect(refusal('{"model":"a/b","model":"c/d"}')).toEqual({ code: 'duplicate_field', param: 'model' });
    expect(refusal('{"stream":true,"str\\u0065am":false,"model":"a/b"}')).toEqual({
      code: 'duplicate_field',
      param: 'stream',
    });
  });
});
