import { describe, expect, it } from 'vitest';
import { readFeed } from './readFeed.ts';

const NOW = new Date('2026-11-22T12:00:00Z');
const WANTED = new Set(['acme/large', 'acme/small', 'gemini/flash', 'together/lab/open', 'xai/g']);
const read = (content: unknown) => readFeed(JSON.stringify(content), WANTED, NOW);
const usd = (dollars: number) => BigInt(Math.round(dollars * 1e9));
const pricesOf = (content: unknown, id: string) => read(content).prices.get(id);

const genai = (...models: object[]) => [{ id: 'acme', name: 'Acme', models }];
const large = (prices: unknown, more: object = {}) => ({
  id: 'large',
  match: { equals: 'large' },
  prices,
  ...more,
});
const modelsDev = (cost: unknown, name = 'large', provider = 'acme') => ({
  [provider]: { id: provider, models: { [name]: { id: name, cost, limit: { context: 10, output: 5 } } } },
});
const litellm = (model: object, name = 'large') => ({
  sample_spec: { litellm_provider: 'one of many', mode: 'any of' },
  [name]: { litellm_provider: 'acme', mode: 'chat', ...model },
});

describe("genai-prices' list", () => {
  it('yields the prices of exact names, with tiers', () => {
    const content = genai(
      large({
        input_mtok: { base: 1.25, tiers: [{ start: 200_000, price: 2.5 }] },
        output_mtok: 10,
        output_reasoning_mtok: 12,
        cache_read_mtok: 0.075,
        cache_write_1h_mtok: 4,
        input_audio_mtok: 3,
        web_searches_kcount: 10,
        something_new: { deep: [1] },
      }),
    );
    expect(read(content)).toMatchObject({ format: 'genai-prices', entries: 1, refused: [] });
    expect(pricesOf(content, 'acme/large')).toEqual({
      rates: {
        input: usd(1.25),
        output: usd(12),
        cacheRead: usd(0.075),
        cacheWrite1h: usd(4),
        inputAudio: usd(3),
      },
      tiers: [{ aboveInputTokens: 200_000, rates: { input: usd(2.5) } }],
    });
  });

  it('takes a name of the match, but nothing that only a pattern matches', () => {
    const content = genai({
      id: 'huge',
      match: { or: [{ equals: 'large' }, { starts_with: 'sma' }, { regex: 'small' }] },
      prices: { input_mtok: 1, output_mtok: 1 },
    });
    expect([...read(content).prices.keys()]).toEqual(['acme/large']);
  });

  it('takes the price in force, and the dearest of a day', () => {
    const at = (...prices: object[]) => pricesOf(genai(large(prices)), 'acme/large')?.rates.input;
    const cost = (input_mtok: number) => ({ prices: { input_mtok, output_mtok: 1 } });
    const from = (start_date: string, input: number) => ({ constraint: { start_date }, ...cost(input) });
    expect(at(cost(1), from('2026-11-22', 2), from('2026-11-23', 3))).toBe(usd(2));
    const cheapAtNight = { constraint: { start_time: '00:30:00Z', end_time: '16:30:00Z' }, ...cost(0.5) };
    expect(at(cost(1), cheapAtNight)).toBe(usd(1));
    expect(at({ ...cheapAtNight, ...cost(5) })).toBe(usd(5));
  });

  it('renames providers', () => {
    const models = [{ id: 'flash', prices: { input_mtok: 1 } }];
    const content = [
      { id: 'google', models },
      { id: 'x-ai', models: [{ id: 'g', prices: { input_mtok: 2 } }] },
    ];
    expect([...read(content).prices.keys()]).toEqual(['gemini/flash', 'xai/g']);
    expect(pricesOf(content, 'gemini/flash')?.rates.output).toBe(0n);
  });
});

describe("models.dev's list", () => {
  it('yields prices and tiers', () => {
    const tier = { input: 4, output: 12, tier: { type: 'context', size: 200_000 } };
    const cost = { input: 2, output: 6, reasoning: 9, cache_read: 0.2, cache_write: 2.5, input_audio: 7 };
    expect(read(modelsDev({ ...cost, tiers: [tier] })).format).toBe('models.dev');
    const expected = {
      rates: {
        input: usd(2),
        output: usd(9),
        cacheRead: usd(0.2),
        cacheWrite: usd(2.5),
        inputAudio: usd(7),
      },
      tiers: [{ aboveInputTokens: 200_000, rates: { input: usd(4), output: usd(12) } }],
    };
    expect(pricesOf(modelsDev({ ...cost, tiers: [tier] }), 'acme/large')).toEqual(expected);
    const legacy = { ...cost, context_over_200k: { input: 4, output: 12 } };
    expect(pricesOf(modelsDev(legacy), 'acme/large')).toEqual(expected);
  });

  it('renames providers, and leaves out what has no price', () => {
    const cost = { input: 1, output: 1 };
    expect([...read(modelsDev(cost, 'lab/open', 'togetherai')).prices.keys()]).toEqual(['together/lab/open']);
    expect(read(modelsDev(undefined)).prices.size).toBe(0);
  });
});

describe("LiteLLM's list", () => {
  it('yields prices per million tokens of prices per token, and tiers', () => {
    const content = litellm({
      input_cost_per_token: 1.5e-7,
      output_cost_per_token: 6e-7,
      output_cost_per_reasoning_token: 7e-7,
      cache_read_input_token_cost: 0.1e-7 + 1e-23,
      cache_creation_input_token_cost_above_1hr: 3e-7,
      input_cost_per_token_above_200k_tokens: 3e-7,
      input_cost_per_token_priority: 9e-7,
      input_cost_per_token_batches: 1e-9,
      input_cost_per_audio_token: 1e-6,
    });
    expect(read(content)).toMatchObject({ format: 'litellm', entries: 1 });
    expect(pricesOf(content, 'acme/large')).toEqual({
      rates: {
        input: usd(0.15),
        output: usd(0.7),
        cacheRead: usd(0.01),
        cacheWrite1h: usd(0.3),
        inputAudio: usd(1),
      },
      tiers: [{ aboveInputTokens: 200_000, rates: { input: usd(0.3) } }],
    });
  });

  it('strips the provider from names, and leaves out what no route serves', () => {
    const cost = { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 };
    const content = {
      ...litellm(cost, 'acme/small'),
      'together_ai/lab/open': { ...cost, litellm_provider: 'together_ai', mode: 'chat' },
      large: { ...cost, litellm_provider: 'acme', mode: 'image_generation' },
    };
    expect([...read(content).prices.keys()]).toEqual(['acme/small', 'together/lab/open']);
  });
});

describe('an entry that cannot be used', () => {
  const others = { id: 'small', match: { equals: 'small' }, prices: { input_mtok: 1, output_mtok: 1 } };
  it.each([
    [-1, 'negative'],
    [1e300, 'above 10000 USD'],
    [10_001, 'above 10000 USD'],
    ['1', 'not a number'],
    [[1], 'not a number'],
    [true, 'not a number'],
  ])('is refused alone: an input price of %j', (input_mtok, why) => {
    const { prices, refused } = read(genai(large({ input_mtok, output_mtok: 1 }), others));
    expect([...prices.keys()]).toEqual(['acme/small']);
    expect(refused).toEqual([{ model: 'acme/large', reason: expect.stringContaining(why) }]);
  });

  it('is refused if a number is too large for JSON', () => {
    const text = JSON.stringify(genai(large({ input_mtok: 7, output_mtok: 1 }), others)).replace(
      '7',
      '1e999',
    );
    expect(readFeed(text, WANTED, NOW).refused[0]?.reason).toContain('not a number');
  });

  it.each([
    [{ input_mtok: { base: 1, tiers: [{ start: -5, price: 1 }] } }, 'number of tokens'],
    [{ input_mtok: { base: 1, tiers: [{ start: 1.5, price: 1 }] } }, 'number of tokens'],
    [{ input_mtok: { base: 1, tiers: 'many' } }, 'no list'],
    [
      {
        input_mtok: {
          base: 1,
          tiers: Array.from({ length: 30 }, (_, start) => ({ start: start + 1, price: 1 })),
        },
      },
      'more than 20',
    ],
  ])('is refused if its tiers are strange: %j', (prices, why) => {
    expect(read(genai(large(prices), others)).refused[0]?.reason).toContain(why);
  });

  it('is refused if it is listed twice, with other prices', () => {
    const cost = (input: number) => large({ input_mtok: input, output_mtok: 1 });
    expect(read(genai(cost(1), cost(2), others)).refused[0]?.reason).toContain('twice');
    expect(read(genai(cost(1), cost(1), others)).refused).toEqual([]);
  });

  it('does not matter if the catalog does not have the model', () => {
    expect(read(genai({ id: 'foreign', prices: { input_mtok: -1 } }, others)).refused).toEqual([]);
  });
});

describe('a document that is refused as a whole', () => {
  it.each([
    ['nothing', ''],
    ['half a document', '[{"id": "acme", "models": [{"id"'],
    ['a web page', '<!doctype html><html></html>'],
  ])('%s', (_name, text) => {
    expect(() => readFeed(text, WANTED, NOW)).toThrow('not JSON');
  });

  it.each([
    [null],
    [[]],
    [{}],
    [1],
    ['text'],
    [[1, 2]],
    [{ a: 1 }],
    [{ large: { price: 1 } }],
    [[{ id: 'a' }]],
  ])('another document: %j', (content) => {
    expect(() => read(content)).toThrow('neither');
  });

  it.each([
    ['genai-prices', genai(...Array.from({ length: 50_001 }, (_, index) => ({ id: `m${index}` })))],
    [
      'models.dev',
      {
        acme: { models: Object.fromEntries(Array.from({ length: 50_001 }, (_, index) => [`m${index}`, {}])) },
      },
    ],
  ])('more models than any vendor has, as %s', (_format, content) => {
    expect(() => read(content)).toThrow('more than 50000 models');
  });

  it('one whose entries mostly cannot be read', () => {
    const bad = (id: string) => ({ id, prices: { input_mtok: -1 } });
    expect(() => read(genai(bad('large'), bad('small')))).toThrow('acme/large: a price is negative');
  });

  it('is not fooled by deep nesting or by names of prototypes', () => {
    const deep = `[{"id":"acme","models":[{"id":"large","match":${'{"or":['.repeat(20_000)}${']}'.repeat(20_000)},"prices":{"input_mtok":1}}]}]`;
    expect(readFeed(deep, WANTED, NOW).prices.size).toBe(1);
    const text =
      '[{"id":"acme","models":[{"id":"large","prices":{"__proto__":1,"constructor":-1,"input_mtok":1}}]}]';
    expect(readFeed(text, WANTED, NOW).prices.size).toBe(1);
  });
});
