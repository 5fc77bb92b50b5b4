import { expect, test } from 'vitest';
import { emptyLine } from '../shared/billLine.ts';
import type { VendorPrice } from '../shared/vendorPrice.ts';
import type { BillEntry } from './bill.ts';
import { costOf } from './priceList.ts';

const MICRO_PER_TOKEN = 1_000_000_000n;
const price: VendorPrice = {
  input: 2n * MICRO_PER_TOKEN,
  output: 8n * MICRO_PER_TOKEN,
  cacheRead: MICRO_PER_TOKEN,
  cacheWrite: 3n * MICRO_PER_TOKEN,
  cacheWrite1h: 4n * MICRO_PER_TOKEN,
  inputAudio: 5n * MICRO_PER_TOKEN,
  outputAudio: 20n * MICRO_PER_TOKEN,
  tiers: [{ aboveInputTokens: 100, input: 6n * MICRO_PER_TOKEN, output: 7n * MICRO_PER_TOKEN }],
  variants: [
    { serviceTier: 'priority', input: 10n * MICRO_PER_TOKEN, output: 11n * MICRO_PER_TOKEN },
    { speed: 'fast', geography: 'us', input: 12n * MICRO_PER_TOKEN, output: 13n * MICRO_PER_TOKEN },
  ],
  tools: { web_search: 10_000_000n },
};

const micro = (changes: Partial<BillEntry>) => {
  const entry: BillEntry = {
    ...emptyLine('m'),
    requestId: 'r',
    account: '',
    reasoningTokens: 0,
    serviceTier: '',
    speed: '',
    geography: '',
    toolUses: {},
    extraLines: [],
    streamed: false,
    completed: true,
    at: new Date(0),
    ...changes,
  };
  return Number(costOf(entry, { m: price, other: { input: 0n, output: 100n * MICRO_PER_TOKEN } })) / 1_000;
};

test('each class has its price; a class without one costs what its larger class costs', () => {
  const line = {
    inputTokens: 16,
    cachedInputTokens: 3,
    cachedAudioTokens: 1,
    cacheWriteTokens: 2,
    cacheWrite1hTokens: 1,
    inputAudioTokens: 4,
    inputImageTokens: 1,
    outputTokens: 6,
    outputAudioTokens: 2,
    outputImageTokens: 1,
  };
  // 5 of text, 2 cached, 1 cached audio, 2 and 1 written, 4 of audio, 1 of an image; 3 of text, 2 of audio, 1 of an image.
  expect(micro(line)).toBe(5 * 2 + 2 + 1 + 2 * 3 + 4 + 4 * 5 + 2 + 3 * 8 + 2 * 20 + 8);
});

test('conditions, context tiers, tools and other models set the price', () => {
  const tokens = { inputTokens: 1, outputTokens: 1 };
  expect(micro(tokens)).toBe(10);
  expect(micro({ ...tokens, serviceTier: 'default', geography: 'global' })).toBe(10);
  expect(micro({ ...tokens, serviceTier: 'priority' })).toBe(21);
  expect(micro({ ...tokens, speed: 'fast', geography: 'us' })).toBe(25);
  expect(micro({ inputTokens: 100, outputTokens: 1 })).toBe(208);
  expect(micro({ inputTokens: 101, outputTokens: 1 })).toBe(613);
  expect(micro({ ...tokens, toolUses: { web_search: 2 } })).toBe(20_010);
  expect(micro({ ...tokens, extraLines: [{ ...emptyLine('other'), outputTokens: 3 }] })).toBe(310);
});

test('what the list has no price for is an error, never free', () => {
  expect(() => micro({ model: 'unknown' })).toThrow('no price for unknown');
  expect(() => micro({ toolUses: { file_search: 1 } })).toThrow('no price for the tool file_search');
});
