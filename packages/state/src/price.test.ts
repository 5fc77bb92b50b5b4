import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { PriceSchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyPrice } from '../../domain/test/anyPrice.ts';
import { priceMessage, priceOfMessage } from './price.ts';

describe('a price', () => {
  it('is the same after its message', () => {
    fc.assert(
      fc.property(anyPrice, fc.integer({ min: 1, max: 2 ** 31 - 1 }), (price, version) => {
        const bytes = toBinary(PriceSchema, create(PriceSchema, priceMessage(version, price)));
        expect(priceOfMessage(fromBinary(PriceSchema, bytes))).toEqual({ version, ...price });
      }),
    );
  });

  it('without rates is unknown, not zero', () => {
    expect(priceOfMessage(create(PriceSchema, { version: 1 }))).toBeUndefined();
    expect(priceOfMessage(undefined)).toBeUndefined();
  });
});
