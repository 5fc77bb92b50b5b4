import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
let connector: string;
beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
  const body = { name: 'negotiated', provider: 'openai', base_url: 'https://openai.test/v1' };
  connector = (await api.call('POST', '/connectors', { body })).body.id as string;
});
afterAll(() => api.close());

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(2 * units) });
const nano = (units: number) => BigInt(units) * 1_000_000_000n;

const FULL = {
  ...price(1),
  input_audio_price: usd(10),
  output_audio_price: usd(20),
  tiers: [{ above_input_tokens: 1_000, ...price(2), cache_read_audio_price: usd(3) }],
  variants: [
    { service_tier: 'priority', ...price(4), tiers: [{ above_input_tokens: 500, ...price(5) }] },
    { service_tier: 'priority', speed: 'fast', geography: 'us', ...price(6), output_image_price: usd(30) },
  ],
  tool_prices: { web_search: usd(0, 10_000_000), file_search: usd(0, 2_500_000) },
};

const many = <T>(of: (at: number) => T) => Array.from({ length: 33 }, (_, at) => of(at));

let count = 0;
async function newModel(): Promise<string> {
  const id = `openai/dimensions-${++count}`;
  await api.call('PUT', `/catalog/models/${id}`, { body: { context_window: 1_000, price: price(9) } });
  return id;
}

/** Sets the price of a model in the catalog, and at a connector. */
const SETTERS = [
  [
    'in the catalog',
    async (model: string, body: Json) => await api.call('POST', `/catalog/models/${model}/prices`, { body }),
    async (model: string) => (await api.snapshot()).models.find(({ id }) => id === model)?.price,
  ],
  [
    'at a connector',
    async (model: string, body: Json) =>
      await api.call('PUT', `/connectors/${connector}/prices/${model}`, { body }),
    async (model: string) =>
      (await api.snapshot()).connectors.find(({ id }) => id === connector)?.prices[model],
  ],
] as const;

describe.each(SETTERS)('a price with modalities, variants and tools %s', (_, set, sent) => {
  it('is shown, and reaches proxies, as it was set', async () => {
    const model = await newModel();
    const { body } = await set(model, FULL);
    expect(body.price).toEqual({
      ...price(1),
      cache_read_price: usd(1),
      cache_write_price: usd(1),
      cache_write_1h_price: usd(1),
      input_audio_price: usd(10),
      input_image_price: usd(1),
      cache_read_audio_price: null,
      output_audio_price: usd(20),
      output_image_price: null,
      tiers: [expect.objectContaining({ input_image_price: usd(2), cache_read_audio_price: usd(3) })],
      variants: [
        expect.objectContaining({
          service_tier: 'priority',
          speed: null,
          geography: null,
          input_audio_price: null,
          tiers: [expect.objectContaining({ above_input_tokens: 500, ...price(5) })],
        }),
        expect.objectContaining({
          service_tier: 'priority',
          speed: 'fast',
          geography: 'us',
          output_image_price: usd(30),
          tiers: [],
        }),
      ],
      tool_prices: FULL.tool_prices,
    });
    const message = await sent(model);
    expect(message).toMatchObject({
      rates: { input: nano(1), inputAudio: nano(10), inputImage: nano(1), outputAudio: nano(20) },
      tiers: [{ aboveInputTokens: 1_000, rates: { inputImage: nano(2), cacheReadAudio: nano(3) } }],
      variants: [
        {
          serviceTier: 'priority',
          speed: '',
          geography: '',
          rates: { input: nano(4) },
          tiers: [{ aboveInputTokens: 500, rates: { output: nano(10) } }],
        },
        { serviceTier: 'priority', speed: 'fast', geography: 'us', rates: { outputImage: nano(30) } },
      ],
      toolPrices: { web_search: 10_000_000n, file_search: 2_500_000n },
    });
    expect(message?.rates?.cacheReadAudio).toBeUndefined();
    expect(message?.variants[0]?.rates?.inputAudio).toBeUndefined();
  });

  it('is the same version again for the same price in another order, or as it is shown', async () => {
    const model = await newModel();
    const first = (await set(model, FULL)).body;
    expect((await set(model, FULL)).body).toEqual(first);
    const tools = Object.fromEntries(Object.entries(FULL.tool_prices).reverse());
    const reversed = { ...FULL, variants: FULL.variants.toReversed(), tool_prices: tools };
    expect((await set(model, reversed)).body).toEqual(first);
    expect((await set(model, first.price as Json)).body).toEqual(first);
  });

  it.each([
    ['a modality', { output_image_price: usd(5) }],
    ['a modality that is no longer known', { input_audio_price: null }],
    ['images of unknown price', { input_image_price: null }],
    ['a tier', { tiers: [{ above_input_tokens: 1_000, ...price(2) }] }],
    ['a variant less', { variants: FULL.variants.slice(1) }],
    ['a condition of a variant', { variants: [{ ...FULL.variants[0], geography: 'eu' }, FULL.variants[1]] }],
    ['a tier of a variant', { variants: [{ ...FULL.variants[0], tiers: [] }, FULL.variants[1]] }],
    ['a price of a tool', { tool_prices: { ...FULL.tool_prices, web_search: usd(0, 10_000_001) } }],
    ['another tool', { tool_prices: { ...FULL.tool_prices, code_interpreter: usd(0) } }],
  ])('is a new version with %s', async (_name, change) => {
    const model = await newModel();
    const first = (await set(model, FULL)).body.version as number;
    expect((await set(model, { ...FULL, ...change })).body.version).toBe(first + 1);
  });

  const [variant] = FULL.variants;
  const shape = [400, 'invalid_request'] as const;
  const rule = [422, 'variants_invalid'] as const;
  it.each([
    ['no condition', { variants: [price(1)] }, ...rule, 'variants.0'],
    ['null conditions', { variants: [{ service_tier: null, ...price(1) }] }, ...rule, 'variants.0'],
    ['the same conditions twice', { variants: [variant, variant] }, ...rule, 'variants.1'],
    [
      'the standard tier',
      { variants: [{ service_tier: 'default', ...price(1) }] },
      ...rule,
      'variants.0.service_tier',
    ],
    ['the standard speed', { variants: [{ ...variant, speed: 'standard' }] }, ...rule, 'variants.0.speed'],
    [
      'the standard geography',
      { variants: [variant, { ...variant, geography: 'global' }] },
      ...rule,
      'variants.1.geography',
    ],
    [
      'tiers that do not rise',
      { variants: [{ speed: 'fast', ...price(1), tiers: [FULL.tiers[0], FULL.tiers[0]] }] },
      422,
      'tiers_invalid',
      'variants.0.tiers',
    ],
    [
      'upper case',
      { variants: [{ ...variant, service_tier: 'Priority' }] },
      ...shape,
      'variants.0.service_tier',
    ],
    ['a long name', { variants: [{ ...variant, speed: 'x'.repeat(33) }] }, ...shape, 'variants.0.speed'],
    [
      'a variant without output',
      { variants: [{ service_tier: 'flex', input_price: usd(1) }] },
      ...shape,
      'variants.0',
    ],
    [
      '33 variants',
      { variants: many((at) => ({ service_tier: `t${at}`, ...price(1) })) },
      ...shape,
      'variants',
    ],
    ['a tool in upper case', { tool_prices: { Web_Search: usd(1) } }, ...shape, 'tool_prices'],
    ['a long name of a tool', { tool_prices: { ['x'.repeat(49)]: usd(1) } }, ...shape, 'tool_prices'],
    ['a line break in a name', { tool_prices: { 'web_search\n': usd(1) } }, ...shape, 'tool_prices'],
    ['a number as a price', { tool_prices: { web_search: 0.01 } }, ...shape, 'tool_prices.web_search'],
    ['a tool without a price', { tool_prices: { web_search: null } }, ...shape, 'tool_prices.web_search'],
    [
      '33 tools',
      { tool_prices: Object.fromEntries(many((at) => [`t${at}`, usd(1)])) },
      ...shape,
      'tool_prices',
    ],
  ])('is refused with %s', async (_name, change, status, code, param) => {
    const model = await newModel();
    const response = await set(model, { ...price(1), ...change });
    expect(response).toMatchObject({ status, body: { error: { code, param } } });
  });
});

it('leaves prices of earlier releases as they were, with images at the price of input', async () => {
  // The columns that rows of an earlier release had.
  const model = await newModel();
  await api.db
    .insertInto('model_prices')
    .values({
      model_id: model,
      version: 7,
      origin: 'catalog',
      input_nano_usd: nano(1),
      output_nano_usd: nano(2),
      cache_read_nano_usd: nano(1),
      cache_write_nano_usd: nano(1),
      cache_write_1h_nano_usd: nano(1),
      created_at: api.now,
    })
    .execute();
  expect((await api.call('GET', `/catalog/models/${model}`)).body.price).toMatchObject({
    version: 7,
    price: { ...price(1), input_image_price: null, variants: [], tool_prices: {} },
  });
});
