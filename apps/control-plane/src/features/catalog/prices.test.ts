import fc from 'fast-check';
import { expect, it } from 'vitest';
import { anyPrice } from '../../../../../packages/domain/test/anyPrice.ts';
import { parsePrice, toFullPrice } from './prices.ts';

it('a price that the API shows sets the same price, whatever its classes, tiers, variants and tools', () => {
  fc.assert(
    fc.property(anyPrice, (price) => {
      const shown = JSON.parse(JSON.stringify(toFullPrice(price)));
      expect(parsePrice(shown)).toEqual(price);
    }),
  );
});
