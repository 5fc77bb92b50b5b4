import type { MatchLogic, ModelInfo } from '@pydantic/genai-prices';
import { describe, expect, it } from 'vitest';
import { catalogOf } from './catalogOf.ts';
import { type Facts, type ModelFacts, parseFacts } from './facts.ts';

const RELEASE = { version: '1.2.3', date: '2026-09-23' };

function factsOf(models: Partial<ModelFacts>[], more: Partial<Facts> = {}): Facts {
  return parseFacts('acme.json', {
    provider: 'acme',
    package_provider: 'acme',
    source: 'Acme.',
    own_models: true,
    sources: { own: { name: 'Acme', date: '2026-11-01' } },
    excluded: {},
    ...more,
    models: models.map((model) => ({
      context_window: 1_000,
      max_output_tokens: null,
      capabilities: [],
      released_at: null,
      deprecated_at: null,
      benchmark_scores: {},
      sources: ['own'],
      ...model,
    })),
  });
}

function packaged(names: readonly string[], more: Partial<ModelInfo> = {}): ModelInfo {
  const [id = ''] = names;
  const match: MatchLogic = { or: names.map((name) => ({ equals: name })) };
  return { id, match, prices: { input_mtok: 1, output_mtok: 4 }, ...more };
}

const generate = (facts: Facts, ...models: ModelInfo[]) => catalogOf(facts, models, RELEASE).models;
const own = (input_price: string, output_price = input_price) => ({ from: null, input_price, output_price });

describe('a model of the catalog', () => {
  it('can do the same by its name with a date as by the one without', () => {
    for (const date of ['-2026-11-01', '-20261101', '@20261101']) {
      const pair = (...capabilities: string[][]) =>
        factsOf(
          capabilities.map((each, at) => ({
            name: at === 0 ? 'a' : `a${date}`,
            capabilities: each,
            prices: [own('1')],
          })),
          { package_provider: null },
        );
      expect(() => generate(pair(['tools', 'pdf_input'], ['tools']))).toThrow(
        'Give them the same capabilities',
      );
      expect(generate(pair(['tools', 'pdf_input'], ['pdf_input', 'tools']))).toHaveLength(2);
    }
  });

  it('has the price of the package under its exact name', () => {
    const [model] = generate(factsOf([{ name: 'a-2026-01-01' }]), packaged(['a', 'a-2026-01-01']));
    expect(model).toMatchObject({
      name: 'a-2026-01-01',
      prices: [{ from: null, input_price: '1', output_price: '4', variants: [], tool_prices: {} }],
      sources: ['genai-prices', 'own'],
    });
  });

  it('has not the price of a model that only a pattern matches, unless the facts say so', () => {
    const pattern = packaged(['a'], { match: { or: [{ equals: 'a' }, { starts_with: 'a-' }] } });
    expect(() => generate(factsOf([{ name: 'a' }, { name: 'a-5' }]), pattern)).toThrow(
      'acme/a-5 has no price',
    );
    const facts = factsOf([{ name: 'a' }, { name: 'a-5', priced_as: 'a' }]);
    expect(generate(facts, pattern)).toMatchObject([{}, { name: 'a-5', prices: [{ input_price: '1' }] }]);
  });

  it('is listed from the package alone if that says enough, else the generator stops', () => {
    expect(generate(factsOf([]), packaged(['b'], { context_window: 500 }))).toMatchObject([
      { name: 'b', context_window: 500, max_output_tokens: null, sources: ['genai-prices'] },
    ]);
    expect(() => generate(factsOf([]), packaged(['b']))).toThrow('acme: the package has the model b');
    const excluded = factsOf([], { excluded: { b: 'It is no longer served.' } });
    expect(generate(excluded, packaged(['b']))).toEqual([]);
  });

  it('is unpriced only with the reason, and not if there is a price', () => {
    const facts = factsOf([{ name: 'u', unpriced: 'Sold by agreement.' }]);
    expect(generate(facts)).toMatchObject([{ name: 'u', prices: [], unpriced: 'Sold by agreement.' }]);
    expect(() => generate(facts, packaged(['u']))).toThrow('acme/u is called unpriced, and has a price');
    expect(() => generate(factsOf([{ name: 'u' }]))).toThrow('acme/u has no price');
  });

  it('has our own price only as long as the package says what it said when ours was written', () => {
    const facts = (instead: { input_price: string; output_price: string; why: string } | undefined) =>
      factsOf([{ name: 'a', prices: [own('9')], ...(instead && { instead_of_package: instead }) }]);
    const stale = { input_price: '1', output_price: '4', why: 'The alias has moved.' };
    expect(generate(facts(stale), packaged(['a']))).toMatchObject([{ prices: [{ input_price: '9' }] }]);
    expect(() => generate(facts({ ...stale, input_price: '2' }), packaged(['a']))).toThrow(
      'acme/a: our own price was written when the package had 2 / 4; it has 1 / 4 now',
    );
    expect(() => generate(facts(undefined), packaged(['a']))).toThrow('it has 1 / 4 now');
    expect(generate(facts(undefined))).toMatchObject([{ prices: [{ input_price: '9' }] }]);
  });

  it('gets the classes that the package lacks, in each tier', () => {
    const tiers = { base: 1, tiers: [{ start: 100, price: 2 }] } as unknown as number;
    const [model] = generate(
      factsOf(
        [
          {
            name: 'a',
            adds: {
              input_audio_price: { price: '32' },
              cache_write_1h_price: { of: 'input_price', times: '2' },
            },
          },
        ],
        { image_input_costs_input: { why: 'Images are input.', sources: ['own'] } },
      ),
      packaged(['a'], { prices: { input_mtok: tiers, output_mtok: 4 } }),
    );
    expect(model?.prices[0]).toMatchObject({
      input_audio_price: '32',
      input_image_price: '1',
      cache_write_1h_price: '2',
      price_tiers: [{ above_input_tokens: 100, input_image_price: '2', cache_write_1h_price: '4' }],
    });
    expect(() =>
      generate(factsOf([{ name: 'a', adds: { input_price: { price: '1' } } }]), packaged(['a'])),
    ).toThrow('acme/a adds input_price, which it has');
  });

  it('has a variant per combination of conditions, whose multiples multiply', () => {
    const [model] = generate(
      factsOf(
        [
          {
            name: 'a',
            service_tiers: { flex: { times: '0.5', except: { output_price: '1' } } },
            speeds: { fast: { times: '6' } },
            geographies: { us: { times: '1.1' } },
          },
        ],
        { service_tiers: { priority: { times: '1' } } },
      ),
      packaged(['a']),
    );
    const prices = Object.fromEntries(
      (model?.prices[0]?.variants ?? []).map(
        ({ service_tier, speed, geography, input_price, output_price }) => [
          `${service_tier}/${speed}/${geography}`,
          [input_price, output_price],
        ],
      ),
    );
    expect(prices).toMatchObject({
      'priority//': ['1', '4'],
      'flex//': ['0.5', '4'],
      '/fast/us': ['6.6', '26.4'],
      'flex/fast/us': ['3.3', '26.4'],
    });
    expect(Object.keys(prices)).toHaveLength(3 * 2 * 2 - 1);
  });

  it('has the dearest price of a tool that any source has', () => {
    const facts = factsOf([{ name: 'a', tool_prices: { web_search: '0.025', x: '0' } }], {
      tool_prices: { prices: { web_search: '0.005', y: '1' }, why: 'Published.', sources: ['own'] },
    });
    const [model] = generate(
      facts,
      packaged(['a'], { prices: { input_mtok: 1, output_mtok: 4, web_searches_kcount: 10 } }),
    );
    expect(model?.prices[0]?.tool_prices).toEqual({ web_search: '0.025', x: '0', y: '1' });
  });

  it('is free only by an explicit price of zero, and then in every condition', () => {
    const facts = factsOf([{ name: 'a', prices: [own('0')] }], {
      service_tiers: { priority: { times: '2' } },
    });
    expect(generate(facts)).toMatchObject([{ prices: [{ input_price: '0', variants: [] }] }]);
  });

  it('drops a date on which nothing changed that the service counts', () => {
    const prices = [
      { prices: { input_mtok: 1, output_mtok: 4 } },
      {
        constraint: { type: 'start_date' as const, start_date: '2026-01-01' },
        prices: { input_mtok: 1, output_mtok: 4, input_video_mtok: 7 },
      },
    ];
    const [model] = generate(factsOf([{ name: 'a' }]), packaged(['a'], { prices }));
    expect(model?.prices).toHaveLength(1);
  });
});

describe('other names', () => {
  it('go to the model that they spell differently, and to no other', () => {
    const facts = factsOf([{ name: 'gpt-5.1' }, { name: 'gpt-5.1-codex' }, { name: 'gpt-5.1-2025-11-13' }]);
    const models = generate(
      facts,
      packaged([
        'gpt-5.1',
        'gpt-5.1-2025-11-13',
        'gpt-5.1-codex',
        'gpt-5-1',
        'gpt-5-1-codex',
        'gpt-5.1-other',
      ]),
    );
    expect(Object.fromEntries(models.map(({ name, other_names }) => [name, other_names]))).toEqual({
      'gpt-5.1': ['gpt-5-1'],
      'gpt-5.1-codex': ['gpt-5-1-codex'],
      'gpt-5.1-2025-11-13': [],
    });
  });

  it('all go to the only model of an entry of the package', () => {
    const [model] = generate(
      factsOf([{ name: 'grok-4-0709' }]),
      packaged(['grok-4-0709', 'grok-4', 'x-ai/grok-4']),
    );
    expect(model?.other_names).toEqual(['grok-4', 'x-ai/grok-4']);
  });
});

it('facts with an unknown field, source or condition are refused with the file', () => {
  expect(() => factsOf([{ name: 'a', speed: 1 } as never])).toThrow('facts/acme.json /models/0');
  expect(() => factsOf([{ name: 'a', sources: ['hearsay'] }])).toThrow('a names the source hearsay');
  expect(() => factsOf([{ name: 'a', speeds: { fast: { times: '-2' } } }])).toThrow(
    'facts/acme.json /models/0/speeds',
  );
});

it('a model that is listed twice is refused', () => {
  expect(() =>
    generate(
      factsOf([
        { name: 'a', prices: [own('1')] },
        { name: 'a', prices: [own('1')] },
      ]),
    ),
  ).toThrow('acme: a model is listed twice');
});
