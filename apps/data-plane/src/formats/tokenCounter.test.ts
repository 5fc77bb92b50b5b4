import { expectLinear } from '@weighbridge/testing';
import { expect, it, onTestFinished, vi } from 'vitest';
import { textOfRequest } from './requestText.ts';
import { createTokenCounter } from './tokenCounter.ts';

const count = createTokenCounter();

it('counts as the tokenizer of current models', async () => {
  expect(await count('')).toBe(0);
  expect(await count('Hello, world!')).toBe(4);
  // Special tokens count as text.
  expect(await count('<|endoftext|>')).toBeGreaterThan(1);
});

it('extrapolates a long text from its beginning', async () => {
  const once = await count('the quick brown fox jumps over the lazy dog. '.repeat(1_000));
  const twentyTimes = await count('the quick brown fox jumps over the lazy dog. '.repeat(20_000));
  expect(Math.abs(twentyTimes / (20 * once) - 1)).toBeLessThan(0.02);
  expect(await count('a'.repeat(1_000_000))).toBeGreaterThan(50_000);
});

it('counts no more of a text than its beginning, in pieces', async () => {
  const pieces: number[] = [];
  const counted = createTokenCounter(async () => (piece) => pieces.push(piece.length));
  await counted('a'.repeat(1_000_000));
  expect(pieces).toEqual(Array(128).fill(512));
});

it.each([
  ['without breaks', 'a', 26],
  ['of rare characters', '\uac00', 11_000],
])('takes linear time for a text %s', async (_what, first, letters) => {
  const text = randomText(first, letters);
  // Each time another text, since the tokenizer remembers what it has seen.
  await expectLinear(8_192, (size) => () => count(text(size)));
});

it('lets others have their turn while it counts what takes long, and counts one text at a time', async () => {
  let pieces = 0;
  const slow = createTokenCounter(async () => (piece) => {
    pieces++;
    const began = performance.now();
    while (performance.now() - began < 12);
    return piece.length;
  });
  const counting = Promise.all([slow('x'.repeat(4_096)), slow('y'.repeat(4_096))]);
  const seen = new Set<number>();
  let isOver = false;
  void counting.then(() => {
    isOver = true;
  });
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    seen.add(pieces);
  }
  expect(await counting).toEqual([4_096, 4_096]);
  // After each of 16 pieces.
  expect(seen.size).toBeGreaterThanOrEqual(16);
});

it('takes the beginning of a long text, and knows how long all of it is', async () => {
  const whole = 'the quick brown fox jumps over the lazy dog. '.repeat(40_000);
  for (const content of [[whole], whole.match(/.{900}/g) ?? []]) {
    const body = Buffer.from(JSON.stringify({ input: content }));
    const { text, characters = 0 } = textOfRequest(body);
    expect(text.length).toBeLessThan(300_000);
    expect(Math.abs(characters / whole.length - 1)).toBeLessThan(0.01);
    const all = await count(whole);
    expect(Math.abs((await count(text, characters)) / all - 1)).toBeLessThan(0.02);
  }
});

it('counts at least what is there of a request with more values than any client sends', () => {
  const words = textOfRequest(Buffer.from(`{"input":["a"${',"a"'.repeat(1_000_000)}],"prompt":"last"}`));
  expect(words.text.length + (words.characters ?? 0)).toBeGreaterThan(1_000_000);
  expect(words.text.length).toBeLessThan(300_000);
  const numbers = textOfRequest(Buffer.from(`{"input":[1${',1'.repeat(999_999)}]}`));
  expect(numbers.framingTokens).toBeGreaterThanOrEqual(1_000_000);
  expect(numbers.framingTokens).toBeLessThan(1_000_010);
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

/** Texts of so many letters from the first one on, in no order: the tokenizer knows few of their sequences. */
function randomText(first: string, letters: number): (length: number) => string {
  let state = 1;
  return (length) => {
    let text = '';
    for (let at = 0; at < length; at++) {
      state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
      text += String.fromCodePoint(Number(first.codePointAt(0)) + ((state >>> 8) % letters));
    }
    return text;
  };
}

it('holds others up for no more pieces than fit into 10 ms', async () => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  let pieces = 0;
  const timed = createTokenCounter(async () => (piece) => {
    pieces++;
    nowMs += 3;
    return piece.length;
  });
  let isOver = false;
  const counting = timed('x'.repeat(100_000)).finally(() => {
    isOver = true;
  });
  const turns: number[] = [];
  for (let before = 0; !isOver; before = pieces) {
    await new Promise((resolve) => setImmediate(resolve));
    turns.push(pieces - before);
  }
  await counting;
  expect(pieces).toBe(128);
  expect(Math.max(...turns)).toBe(4);
});
