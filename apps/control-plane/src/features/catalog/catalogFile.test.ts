import { describe, expect, it } from 'vitest';
import { parseCatalogFile, readCatalogFiles } from './catalogFile.ts';
import { duePrices, type ShippedModel, shippedCatalog } from './shippedCatalog.ts';

const files = await readCatalogFiles();
const catalog = shippedCatalog(files, new Date('2026-11-22T00:00:00Z'));
const priceOf = (id: string) => catalog.find((model) => model.id === id)?.price;

describe('the shipped catalog', () => {
  it('has each model once', () => {
    const ids = catalog.map((model) => model.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(400);
  });

  it("has exactly the prices of the vendors' lists", () => {
    expect(priceOf('openai/gpt-5.4')).toMatchObject({
      input: 2_500_000_000n,
      output: 15_000_000_000n,
      cacheRead: 250_000_000n,
      tiers: [{ aboveInputTokens: 271_999, input: 5_000_000_000n, output: 22_500_000_000n }],
    });
    // Writing to the cache for five minutes costs 1.25 × the input, for an hour 2 ×.
    expect(priceOf('anthropic/claude-sonnet-4-5')).toMatchObject({
      cacheWrite: 3_750_000_000n,
      cacheWrite1h: 6_000_000_000n,
    });
  });

  it('has prices by service tier, speed, geography, modality and tool', () => {
    const opus = priceOf('anthropic/claude-opus-5');
    const of = (serviceTier: string, speed: string, geography: string) =>
      opus?.variants.find(
        ({ service }) =>
          service.serviceTier === serviceTier && service.speed === speed && service.geography === geography,
      );
    expect(of('', 'fast', '')).toMatchObject({ input: 10_000_000_000n, output: 50_000_000_000n });
    expect(of('', '', 'us')).toMatchObject({ input: 5_500_000_000n });
    expect(of('priority', 'fast', 'us')).toMatchObject({ input: 11_000_000_000n });
    expect(opus?.toolPrices).toMatchObject({ web_search: 10_000_000n });
    expect(opus).toMatchObject({ inputImage: 5_000_000_000n });
    expect(opus?.inputAudio).toBeUndefined();
    expect(priceOf('openai/gpt-audio')).toMatchObject({
      inputAudio: 32_000_000_000n,
      outputAudio: 64_000_000_000n,
    });
    const [priority] = priceOf('openai/gpt-5.4')?.variants.filter(
      ({ service }) => service.serviceTier === 'priority',
    ) ?? [undefined];
    expect(priority).toMatchObject({ input: 5_000_000_000n, tiers: [{ input: 10_000_000_000n }] });
  });

  it('has a price for every token class of a model, or for none of a free model', () => {
    for (const { id, price } of catalog) {
      if (!price) continue;
      const charged = [price, ...price.tiers].flatMap((rates) => [
        rates.input > 0n,
        rates.cacheRead > 0n,
        rates.cacheWrite > 0n,
        rates.cacheWrite1h > 0n,
      ]);
      expect([id, new Set(charged).size]).toEqual([id, 1]);
    }
  });

  it('has rising tiers', () => {
    for (const { id, price } of catalog) {
      const edges = price?.tiers.map((tier) => tier.aboveInputTokens) ?? [];
      expect([id, edges]).toEqual([id, [...edges].sort((a, b) => a - b)]);
    }
  });

  it('lists a model without a published price, without a price', () => {
    expect(catalog.filter(({ price }) => price === null).map(({ id }) => id)).toContain('groq/groq/compound');
  });
});

describe('a dated price', () => {
  const model = (prices: object[]) => ({
    name: 'm',
    other_names: [],
    prices: prices.map((price) => ({
      output_price: '1',
      price_tiers: [],
      variants: [],
      tool_prices: {},
      ...price,
    })),
    context_window: 1,
    max_output_tokens: null,
    capabilities: [],
    released_at: null,
    deprecated_at: null,
    benchmark_scores: {},
    sources: [],
  });
  const file = (...models: object[]) =>
    JSON.stringify({
      provider: 'acme',
      as_of: '2026-01-01',
      source: 'x',
      own_models: true,
      sources: {},
      models,
    });
  const dated = parseCatalogFile(
    'acme.json',
    file(
      model([
        { from: null, input_price: '1' },
        { from: '2026-03-01', input_price: '2' },
        { from: '2027-01-01', input_price: '3' },
      ]),
      { ...model([{ from: null, input_price: '5' }]), name: 'steady' },
    ),
  );
  const inputAt = (at: string) =>
    shippedCatalog(dated, new Date(at)).map(({ price }: ShippedModel) => price?.input);

  it.each([
    ['2020-01-01T00:00:00Z', 1_000_000_000n],
    ['2026-02-28T23:59:59.999Z', 1_000_000_000n],
    ['2026-03-01T00:00:00Z', 2_000_000_000n],
    ['2027-06-01T00:00:00Z', 3_000_000_000n],
  ])('at %s is %d', (at, input) => {
    expect(inputAt(at)).toEqual([input, 5_000_000_000n]);
  });

  it('is due between two times if it starts after the first and not after the second', () => {
    const between = (after: string, until: string) => {
      const { due, next } = duePrices(dated, { after: new Date(after), until: new Date(until) });
      return [due.map(({ id }) => id), next?.toISOString()];
    };
    expect(between('2026-01-01', '2026-02-28')).toEqual([[], '2026-03-01T00:00:00.000Z']);
    expect(between('2026-02-28', '2026-03-01')).toEqual([['acme/m'], '2027-01-01T00:00:00.000Z']);
    expect(between('2026-03-01', '2026-12-31')).toEqual([[], '2027-01-01T00:00:00.000Z']);
    expect(between('2026-03-01', '2030-01-01')).toEqual([['acme/m'], undefined]);
  });

  it.each([
    [{ from: 'soon', input_price: '1' }, '/models/0/prices/0/from'],
    [{ from: null, input_price: '-1' }, '/models/0/prices/0/input_price'],
    [{ from: null, input_price: 1 }, '/models/0/prices/0/input_price'],
    [{ from: null, input_price: '1', tool_prices: { web_search: '-1' } }, '/models/0/prices/0/tool_prices'],
    [{ from: null, input_price: '1', extra: '1' }, '/models/0/prices/0'],
  ])('%j is refused with the file and the field', (price, where) => {
    expect(() => parseCatalogFile('acme.json', file(model([price])))).toThrow(`catalog/acme.json ${where}`);
  });
});
