import { expect, it } from 'vitest';
import { type ChatChunk, chatChunks } from './eventStream.ts';

async function read(...parts: readonly (string | Uint8Array)[]): Promise<ChatChunk[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) {
        controller.enqueue(typeof part === 'string' ? new TextEncoder().encode(part) : part);
      }
      controller.close();
    },
  });
  const chunks: ChatChunk[] = [];
  for await (const chunk of chatChunks(body)) chunks.push(chunk);
  return chunks;
}

const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

it('reads text and usage, however the bytes are cut', async () => {
  const usage = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } };
  const bytes = new TextEncoder().encode(
    `: hello\r\n${chunk('né')}${chunk(' 名')}data: ${JSON.stringify(usage)}\r\n\r\ndata: [DONE]\n\n`,
  );
  const whole = await read(bytes);
  expect(whole.map(({ text }) => text).join('')).toBe('né 名');
  expect(whole.at(-1)?.usage).toEqual({ input: 3, output: 2 });
  expect(await read(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(whole);
});

it('says what failed within a stream', async () => {
  expect(await read(chunk('a'), 'data: {"error":{"message":"overloaded"}}\n\n')).toEqual([
    { text: 'a' },
    { text: '', error: 'overloaded' },
  ]);
  expect(await read('data: {"choi\n')).toEqual([{ text: '', error: 'The answer ended within a chunk.' }]);
});
