import { expect, it } from 'vitest';
import { withKeptDimensions } from './keptDimensions.ts';

const usd = (units: number) => ({ currency_code: 'USD' as const, units, nanos: 0 });
const list = { input_price: usd(1), output_price: usd(2), tiers: [] };
const variants = [{ service_tier: 'priority', speed: null, geography: null, ...list }];
const current = {
  ...list,
  cache_read_price: usd(1),
  input_audio_price: usd(5),
  output_audio_price: null,
  variants,
  tool_prices: { web_search: usd(3), file_search: usd(4) },
};

it('an imported price keeps what its list does not know, as long as the list price is the same', () => {
  expect(withKeptDimensions({ ...list, tool_prices: { web_search: usd(9) } }, current)).toEqual({
    ...list,
    input_audio_price: usd(5),
    variants,
    tool_prices: { web_search: usd(9), file_search: usd(4) },
  });
});

it('prices of modalities and of conditions of service end with the list price that they belong to', () => {
  const dearer = { ...list, input_price: usd(7) };
  expect(withKeptDimensions(dearer, current)).toEqual({ ...dearer, tool_prices: current.tool_prices });
});

it('what the list does know replaces what was known', () => {
  const own = { ...list, input_audio_price: usd(6), variants: [{ service_tier: 'flex', ...list }] };
  expect(withKeptDimensions(own, current)).toMatchObject(own);
  expect(withKeptDimensions(own, undefined)).toEqual(own);
});
