import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { withPriceShape } from './priceShape.ts';

const error = (param: string, code = 'invalid_request') =>
  new AppError('invalid_request', code, `${param}: must be object.`, { param });

describe('an error about the shape of a price', () => {
  it.each([
    'price',
    'price.input_price',
    'input_price.units',
    'price.tiers.0.output_price.nanos',
    'tool_prices.web_search',
  ])('says the right one: %s', (param) => {
    expect(withPriceShape(error(param))).toMatchObject({
      message: expect.stringMatching(/must be object\. A price is \{"input_price".*"nanos": 150000000\}\.$/),
      param,
    });
  });

  it('leaves all others as they are', () => {
    for (const other of [error('name'), error('min_cost'), error('price', 'other_code'), new Error('x')]) {
      expect(withPriceShape(other)).toBe(other);
    }
  });
});
