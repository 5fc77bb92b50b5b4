import { describe, expect, it } from 'vitest';
import { ChatStreamTap, readChatAnswer } from './chatUsage.ts';

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const content = event({ id: 'c-1', choices: [{ delta: { content: 'say "usage"' } }], usage: null });
const report = event({
  id: 'c-1',
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});
const stream = `: ping\n\n${content}${content}${report}data: [DONE]\n\n`;

/** Sends a stream in pieces of a size; returns what the caller saw. */
function passed(tap: ChatStreamTap, text: string, size: number): string {
  const bytes = Buffer.from(text);
  let seen = '';
  for (let at = 0; at < bytes.length; at += size) seen += tap.push(bytes.subarray(at, at + size));
  return seen + tap.end();
}

describe('usage of a streamed answer', () => {
  it.each([1, 2, 7, 64, 10_000])('is read in pieces of %d bytes, and its chunk hidden', (size) => {
    const tap = new ChatStreamTap({ hideUsage: true });
    expect(passed(tap, stream, size)).toBe(stream.replace(report, ''));
    expect(tap.facts).toMatchObject({ responseId: 'c-1', usage: { inputTokens: 3, outputTokens: 2 } });
  });

  it('passes every byte on at once to a caller that asked for usage', () => {
    const tap = new ChatStreamTap({ hideUsage: false });
    expect(passed(tap, stream, 3)).toBe(stream);
    expect(tap.facts.usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
  });

  it('keeps a last chunk that reports usage together with content', () => {
    const last = event({
      id: 'c-1',
      choices: [{ delta: {} }],
      usage: { prompt_tokens: 3, completion_tokens: 2 },
    });
    const tap = new ChatStreamTap({ hideUsage: true });
    expect(passed(tap, content + last, 10)).toBe(content + last);
    expect(tap.facts.usage).toMatchObject({ outputTokens: 2 });
  });

  it('notices an error that comes after a good start', () => {
    const tap = new ChatStreamTap({ hideUsage: true });
    passed(tap, content + event({ error: { message: 'overloaded' } }), 10);
    expect(tap.failed).toBe(true);
    expect(tap.facts.usage).toBeUndefined();
  });

  it('is read from an event that lacks its blank line at the end', () => {
    const tap = new ChatStreamTap({ hideUsage: true });
    expect(passed(tap, content + report.trimEnd(), 5)).toBe(content);
    expect(tap.facts.usage).toBeDefined();
  });
});

describe('usage of a whole answer', () => {
  it('is that of the top level', () => {
    const body = {
      id: 'c-2',
      choices: [{ usage: { prompt_tokens: 99 } }],
      usage: { prompt_tokens: 4, completion_tokens: 1 },
    };
    expect(readChatAnswer(Buffer.from(JSON.stringify(body)))).toMatchObject({
      responseId: 'c-2',
      usage: { inputTokens: 4 },
    });
  });

  it('is unknown where the answer is not what it should be', () => {
    for (const body of ['', '<html>', '{"usage":1}', '{"id":1,"usage":{}}']) {
      expect(readChatAnswer(Buffer.from(body))).toEqual({ usage: undefined, responseId: '' });
    }
  });
});
