import { expect, it } from 'vitest';
import { textOfRequest } from './requestText.ts';
import { createTokenCounter } from './tokenCounter.ts';

const count = createTokenCounter();

it('counts as the tokenizer of current models', async () => {
  expect(await count('')).toBe(0);
  expect(await count('Hello, world!')).toBe(4);
  // Special tokens count as text.
  expect(await count('<|endoftext|>')).toBeGreaterThan(1);
});

it('extrapolates a long text from its beginning, and stays fast on one without breaks', async () => {
  const once = await count('the quick brown fox jumps over the lazy dog. '.repeat(1_000));
  const twentyTimes = await count('the quick brown fox jumps over the lazy dog. '.repeat(20_000));
  expect(Math.abs(twentyTimes / (20 * once) - 1)).toBeLessThan(0.02);
  const began = performance.now();
  expect(await count('a'.repeat(1_000_000))).toBeGreaterThan(50_000);
  expect(performance.now() - began).toBeLessThan(1_000);
});

it('counts the text that a model reads, in any dialect', () => {
  const text = (body: object) => textOfRequest(Buffer.from(JSON.stringify(body)));
  expect(
    text({
      model: 'x',
      user: 'y',
      system: 'S',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'A' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(99)}` } },
          ],
        },
        {
          role: 'assistant',
          content: 'B',
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
      ],
    }),
  ).toEqual({ text: 'S\nA\nB\nf\n{}', framingTokens: 11 });
  expect(text({ input: 'A', instructions: 'B' })).toEqual({ text: 'B\nA', framingTokens: 0 });
  expect(text({ input: ['A', 'B'] }).text).toBe('A\nB');
  // Each number is a token.
  expect(text({ input: [[1, 2, 30_000], [4]] })).toEqual({ text: '', framingTokens: 4 });
  expect(text({ input: [5, 6] })).toEqual({ text: '', framingTokens: 2 });
  expect(text({ input: 'a"\n€' }).text).toBe('a"\n€');
});
