import { describe, expect, it } from 'vitest';
import { RequestBody } from '../formats/requestBody.ts';
import { createContentCapture } from './contentCapture.ts';

const KEY = 'sk-planted-0123456789abcdefghij';

function input(body: unknown, maxLength = 1_000) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const attributes = createContentCapture({ maxLength }).input(new RequestBody([Buffer.from(text)]));
  const messages = attributes['gen_ai.input.messages'];
  return { attributes, messages: messages === undefined ? undefined : JSON.parse(String(messages)) };
}

describe('the captured prompt', () => {
  it('has the messages, in the dialects of all routes', () => {
    const hello = [{ role: 'user', parts: [{ type: 'text', content: 'Hello' }] }];
    expect(input({ messages: [{ role: 'user', content: 'Hello' }] }).messages).toEqual(hello);
    expect(input({ input: 'Hello' }).messages).toEqual(hello);
    expect(input({ input: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] }).messages).toEqual(
      hello,
    );
    expect(input({ input: ['Hello'] }).messages).toEqual(hello);
    expect(input({ system: 'Be kind.', messages: [{ role: 'user', content: 'Hello' }] }).messages).toEqual([
      { role: 'system', parts: [{ type: 'text', content: 'Be kind.' }] },
      ...hello,
    ]);
  });

  it('has tool calls and their results, and no media', () => {
    const { messages } = input({
      messages: [
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"at":"Paris"}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'rainy' },
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
      ],
    });
    expect(messages).toEqual([
      { role: 'assistant', parts: [{ type: 'function', name: 'weather', content: '{"at":"Paris"}' }] },
      { role: 'tool', parts: [{ type: 'text', content: 'rainy' }] },
      { role: 'user', parts: [{ type: 'image_url' }] },
    ]);
  });

  it('contains no key, wherever one occurs', () => {
    const { attributes } = input({
      system: `use ${KEY}`,
      messages: [
        { role: KEY, content: `my key is ${KEY}` },
        { role: 'user', content: [{ type: KEY, text: KEY }] },
        {
          role: 'assistant',
          tool_calls: [{ type: 'function', function: { name: KEY, arguments: `{"k":"${KEY}"}` } }],
        },
        { role: 'user', content: [{ type: 'tool_result', content: [{ type: 'text', text: KEY }] }] },
      ],
    });
    expect(JSON.stringify(attributes)).toContain('[redacted]');
    expect(JSON.stringify(attributes)).not.toContain(KEY.slice(-10));
  });

  it('contains no part of a key at the cut', () => {
    for (let maxLength = 1; maxLength < 60; maxLength++) {
      const { attributes } = input({ input: `a key: ${KEY} and more` }, maxLength);
      expect(JSON.stringify(attributes)).not.toContain('planted');
    }
  });

  it('is limited to its maximum, the latest messages first', () => {
    const messages = Array.from({ length: 10 }, (_, at) => ({ role: 'user', content: `${at}`.repeat(30) }));
    const kept = input({ messages }, 70).messages;
    expect(kept.map(({ parts }: { parts: { content: string }[] }) => parts[0]?.content)).toEqual([
      '7'.repeat(10),
      '8'.repeat(30),
      '9'.repeat(30),
    ]);
  });

  it('is omitted for a body that is too large or of unknown form', () => {
    const omitted = { 'weighbridge.content.omitted': true };
    expect(input({ input: 'x'.repeat(300_000) }).attributes).toEqual(omitted);
    expect(input('no JSON').attributes).toEqual(omitted);
    expect(input('[]').attributes).toEqual(omitted);
    // As JSON, it is longer than a span attribute may be.
    expect(input({ input: '\u0001'.repeat(16_000) }, 16_000).attributes).toEqual(omitted);
  });
});

it('captures the beginning of a response, without keys', () => {
  const { output } = createContentCapture({ maxLength: 30 });
  const attributes = output(`Your key is ${KEY}. ${'x'.repeat(100)}`);
  expect(JSON.parse(String(attributes['gen_ai.output.messages']))).toEqual([
    { role: 'assistant', parts: [{ type: 'text', content: 'Your key is sk-[redacted]. xxx' }] },
  ]);
});
