import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { PriceSchema } from '@weighbridge/contracts';
import { byClass, type ContextPrices, MEDIA_CLASSES, type ModelPrice, type Rates } from '@weighbridge/domain';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  modelPriceOf,
  PRICE_COLUMNS,
  priceColumns,
  priceFromJson,
  priceMessage,
  priceOfMessage,
  priceToJson,
} from './price.ts';

const amount = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
const media: ReadonlySet<string> = new Set(MEDIA_CLASSES);
const rates = fc.record(
  byClass((one) => (media.has(one) ? fc.option(amount, { nil: undefined }) : amount)),
) as fc.Arbitrary<Rates<bigint>>;
const contextPrices: fc.Arbitrary<ContextPrices> = fc
  .tuple(rates, fc.array(fc.tuple(rates, fc.integer({ min: 1, max: 2 ** 32 - 1 })), { maxLength: 3 }))
  .map(([list, tiers]) => ({
    ...list,
    tiers: tiers.map(([ofTier, aboveInputTokens]) => ({ ...ofTier, aboveInputTokens })),
  }));
const service = fc.record({ serviceTier: fc.string(), speed: fc.string(), geography: fc.string() });
const prices: fc.Arbitrary<ModelPrice> = fc
  .tuple(
    contextPrices,
    fc.array(fc.tuple(contextPrices, service), { maxLength: 3 }),
    fc.dictionary(fc.stringMatching(/^[a-z0-9_]{1,48}$/), amount),
    fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  )
  .map(([list, variants, toolPrices, version]) => ({
    ...list,
    variants: variants.map(([ofVariant, conditions]) => ({ ...ofVariant, service: conditions })),
    toolPrices: { ...toolPrices },
    version,
  }));

/** JSON columns arrive parsed. */
const asRead = ({ tiers, variants, tool_prices, ...columns }: ReturnType<typeof priceColumns>) => ({
  ...columns,
  tiers: JSON.parse(tiers),
  variants: JSON.parse(variants),
  tool_prices: JSON.parse(tool_prices),
});

describe('a price', () => {
  it('is the same after its columns, its JSON and its message', () => {
    fc.assert(
      fc.property(prices, ({ version, ...price }) => {
        expect(modelPriceOf({ ...asRead(priceColumns(price)), version })).toEqual({ version, ...price });
        expect(priceFromJson(JSON.parse(JSON.stringify(priceToJson(price))))).toEqual(price);
        const bytes = toBinary(PriceSchema, create(PriceSchema, priceMessage(version, price)));
        expect(priceOfMessage(fromBinary(PriceSchema, bytes))).toEqual({ version, ...price });
      }),
    );
  });

  it('has the columns that both tables of prices have', () => {
    expect(PRICE_COLUMNS).toEqual([
      'ended',
      'input_nano_usd',
      'output_nano_usd',
      'cache_read_nano_usd',
      'cache_write_nano_usd',
      'cache_write_1h_nano_usd',
      'input_audio_nano_usd',
      'input_image_nano_usd',
      'cache_read_audio_nano_usd',
      'output_audio_nano_usd',
      'output_image_nano_usd',
      'tiers',
      'variants',
      'tool_prices',
    ]);
  });

  it('without rates is unknown, not zero', () => {
    expect(priceOfMessage(create(PriceSchema, { version: 1 }))).toBeUndefined();
    expect(priceOfMessage(undefined)).toBeUndefined();
  });
});
