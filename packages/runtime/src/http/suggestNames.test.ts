import { expect, it } from 'vitest';
import { suggestNames } from './suggestNames.ts';

const price = { properties: { input_price: {}, output_price: {} } };
const SCHEMA = {
  properties: {
    limit_micro_usd: {},
    window: {},
    tiers: { items: price },
    tools: { additionalProperties: price },
  },
};

it.each([
  ['', 'windw', ' Did you mean window?'],
  ['', 'limit', ' Did you mean limit_micro_usd?'],
  ['', 'zzz', ' There are limit_micro_usd, window, tiers, tools.'],
  ['/tiers/0', 'inputprice', ' Did you mean input_price?'],
  ['/tools/web', 'x', ' There are input_price, output_price.'],
  ['/window', 'x', ''],
  ['/none/constructor', 'x', ''],
  ['/constructor', 'x', ''],
])('suggests what is at %j for %j', (path, name, suggestion) => {
  expect(suggestNames(SCHEMA, path, name)).toBe(suggestion);
});

it('says nothing without a schema', () => {
  expect(suggestNames(undefined, '/a', 'b')).toBe('');
});
