import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { ConnectorSchema, Dialect, PriceSchema, RatesSchema, SnapshotSchema } from '@weighbridge/contracts';
import { NO_TOKENS } from '@weighbridge/domain';
import { routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { MESSAGES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { Charge } from './charge.ts';
import type { ModelRequest } from './preparedRequest.ts';
import { priceCharge } from './priceCharge.ts';

const rates = (usd: bigint) =>
  create(RatesSchema, {
    input: usd * 1_000_000_000n,
    output: usd * 2_000_000_000n,
    cacheRead: 0n,
    cacheWrite: 0n,
    cacheWrite1h: 0n,
  });
const price = (
  usd: bigint,
  more: Pick<MessageInitShape<typeof PriceSchema>, 'variants' | 'toolPrices'> = {},
) => create(PriceSchema, { version: 1, rates: rates(usd), ...more });
const model = (name: string, of: ReturnType<typeof price>, provider = 'acme') => ({
  id: `${provider}/${name}`,
  provider,
  upstreamName: name,
  price: of,
});
const variants = [
  { serviceTier: 'priority', rates: rates(3n) },
  { serviceTier: 'flex', rates: rates(0n) },
  { speed: 'fast', rates: rates(6n) },
];
const table = routingTable(
  tablesOf(
    create(SnapshotSchema, {
      connectors: [create(ConnectorSchema, { id: 'con_1', provider: 'acme', dialect: Dialect.ANTHROPIC })],
      models: [
        model('small', price(1n, { variants, toolPrices: { web_search: 7n, image_generation: 5n } })),
        model('large', price(10n)),
        model('dated-20260101', price(20n)),
        model('huge', price(100n)),
        { ...model('bounded', price(1n)), contextWindow: 2_000, maxOutputTokens: 1_000 },
        model('small', price(1_000n), 'other'),
      ],
    }),
  ),
);
const connector = table.connectors.get('acme')?.[0] as ModelRequest['connector'];

function requestOf(fields: object, asked = 'acme/small'): ModelRequest {
  const body = new RequestBody([Buffer.from(JSON.stringify({ model: asked, ...fields }))]);
  const found = table.models.get(asked) as ModelRequest['model'];
  return { model: found, connector, generation: readGenerationRequest(MESSAGES, body) };
}

const usage = { ...NO_TOKENS, inputTokens: 1_000_000 };
const charge = (more: Partial<Charge> = {}): Charge => ({
  usage,
  said: {},
  toolUses: {},
  others: [],
  model: 'small',
  estimated: false,
  atLeastReserved: false,
  ...more,
});
const USD = 1_000_000_000n;

describe('the conditions of service', () => {
  it.each([
    ['that the response names', { serviceTier: 'priority' }, {}, 3n, 'priority'],
    [
      'that the response names, not those asked',
      { serviceTier: 'default' },
      { service_tier: 'priority' },
      1n,
      '',
    ],
    ['that were asked, if the response is silent', {}, { service_tier: 'priority' }, 3n, 'priority'],
    ['that were asked count only if they are dearer', {}, { service_tier: 'flex' }, 1n, ''],
    [
      'that the response names, if they are cheaper',
      { serviceTier: 'flex' },
      { service_tier: 'auto' },
      0n,
      'flex',
    ],
  ])('%s', (_what, said, asked, usd, serviceTier) => {
    const { costNanoUsd, details } = priceCharge(charge({ said }), requestOf(asked), table);
    expect([costNanoUsd, details.service.serviceTier]).toEqual([usd * USD, serviceTier]);
    expect(details.unpriced).toEqual([]);
  });

  it('are decided one by one', () => {
    const asked = requestOf({ service_tier: 'priority', speed: 'fast', inference_geo: 'global' });
    expect(priceCharge(charge({ said: { serviceTier: 'standard' } }), asked, table)).toMatchObject({
      costNanoUsd: 6n * USD,
      details: { service: { serviceTier: '', speed: 'fast', geography: '' } },
    });
  });

  it('mark a row whose tier has no price', () => {
    const priced = priceCharge(charge({ said: { serviceTier: 'gold' } }), requestOf({}), table);
    expect(priced.details.unpriced).toEqual(['service_tier:gold']);
    expect(priced.costNanoUsd).toBeGreaterThan(USD);
  });
});

describe('the model', () => {
  it.each([
    ['that was asked, if the request names one', {}, 'huge', 1n, '', []],
    [
      'that answered, if it names several',
      { fallbacks: [{ model: 'large' }] },
      'large',
      10n,
      'acme/large',
      [],
    ],
    ['that was asked and answered', { fallbacks: [{ model: 'large' }] }, 'small', 1n, '', []],
    ['with its date', { fallbacks: [{ model: 'large' }] }, 'large-20260203', 10n, 'acme/large', []],
    ['of the exact date', { fallbacks: 'default' }, 'dated-20260101', 20n, 'acme/dated-20260101', []],
    ['of the same provider', { fallbacks: 'default' }, 'small', 1n, '', []],
    [
      'that is dearest of those named',
      { fallbacks: [{ model: 'large' }] },
      'x',
      10n,
      'acme/large',
      ['model:x'],
    ],
    ['that was asked, if it is dearest', { fallbacks: ['small'] }, '', 1n, '', ['model:']],
  ])('%s', (_what, fields, name, usd, pricedModel, unpriced) => {
    const { costNanoUsd, details } = priceCharge(charge({ model: name }), requestOf(fields), table);
    expect([costNanoUsd, details.pricedModel, details.unpriced]).toEqual([usd * USD, pricedModel, unpriced]);
  });
});

describe('what was billed beside the usage', () => {
  const tokens = { ...NO_TOKENS, outputTokens: 1_000_000 };

  it.each([
    ['of the model itself', '', 2n, []],
    ['of a known model', 'large', 20n, []],
    ['of an unknown model, at the dearest of the provider', 'x', 200n, ['model:x']],
  ])('%s has its price, and is in the tokens of the row', (_what, name, usd, unpriced) => {
    const priced = priceCharge(charge({ others: [{ model: name, tokens }] }), requestOf({}), table);
    expect(priced).toMatchObject({
      costNanoUsd: USD + usd * USD,
      usage: { inputTokens: 1_000_000, outputTokens: 1_000_000 },
      details: { unpriced },
    });
  });

  it('is a price per use of a tool', () => {
    const priced = priceCharge(charge({ toolUses: { web_search: 3 } }), requestOf({}), table);
    expect(priced).toMatchObject({ costNanoUsd: USD + 21n, details: { toolUses: { web_search: 3 } } });
  });

  it('is not both per image and per token, unless images have a price per use', () => {
    const images = { toolUses: { image_generation: 2 }, others: [{ model: 'large', tokens }] };
    expect(priceCharge(charge(images), requestOf({}), table).costNanoUsd).toBe(21n * USD + 10n);
    const large = priceCharge(charge(images), requestOf({}, 'acme/large'), table);
    expect(large.costNanoUsd).toBe(30n * USD);
    expect(large.details).toMatchObject({ unpriced: [], toolUses: {} });
  });
});

it.each([
  [{ inputTokens: 2_000, outputTokens: 1_000 }, {}, []],
  [{ inputTokens: 1_001, cacheReadTokens: 1_000 }, {}, ['beyond_catalog:input_tokens']],
  [{ outputTokens: 1_001 }, {}, ['beyond_catalog:output_tokens']],
  [
    { inputTokens: 2_001, outputTokens: 1_001 },
    {},
    ['beyond_catalog:input_tokens', 'beyond_catalog:output_tokens'],
  ],
  [{ inputTokens: 2_001 }, { estimated: true }, []],
])('marks %o beyond what the catalog says, and charges it in full', (used, more, marks) => {
  const beyond = { ...NO_TOKENS, ...used };
  const priced = priceCharge(
    charge({ usage: beyond, ...more }),
    requestOf({ max_tokens: 9 }, 'acme/bounded'),
    table,
  );
  expect(priced.details.unpriced).toEqual(marks);
  expect(priced.usage).toEqual(beyond);
});
