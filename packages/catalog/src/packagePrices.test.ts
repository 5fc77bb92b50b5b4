import type { ModelInfo } from '@pydantic/genai-prices';
import { describe, expect, it } from 'vitest';
import { exactNames, packagePrices } from './packagePrices.ts';

const model = (prices: ModelInfo['prices']): ModelInfo => ({ id: 'm', match: { equals: 'm' }, prices });
const tiered = (base: number, ...tiers: { start: number; price: number }[]) =>
  ({ base, tiers }) as unknown as number;
const on = (start_date: string, prices: Record<string, number>) => ({
  constraint: { type: 'start_date' as const, start_date },
  prices,
});
const during = (start_time: string, end_time: string, prices: Record<string, number>) => ({
  constraint: { type: 'time_of_date' as const, start_time, end_time },
  prices,
});

describe('the prices of the package', () => {
  it('are taken by class and tool', () => {
    const prices = { input_mtok: 1, output_mtok: 2, cache_audio_read_mtok: 0.3, web_searches_kcount: 10 };
    expect(packagePrices(model(prices))).toEqual([
      {
        from: null,
        input_price: '1',
        output_price: '2',
        cache_read_audio_price: '0.3',
        price_tiers: [],
        tool_prices: { web_search: '0.01' },
      },
    ]);
  });

  it('have every class in every tier', () => {
    const prices = {
      input_mtok: tiered(1, { start: 200, price: 2 }, { start: 500, price: 4 }),
      output_mtok: tiered(3, { start: 500, price: 9 }),
      cache_read_mtok: 0.5,
    };
    expect(packagePrices(model(prices))).toMatchObject([
      {
        input_price: '1',
        output_price: '3',
        price_tiers: [
          { above_input_tokens: 200, input_price: '2', output_price: '3', cache_read_price: '0.5' },
          { above_input_tokens: 500, input_price: '4', output_price: '9', cache_read_price: '0.5' },
        ],
      },
    ]);
  });

  it('are versions by date, oldest first, whatever their order', () => {
    const base = { prices: { input_mtok: 1, output_mtok: 1 } };
    const first = on('2026-02-01', { input_mtok: 2, output_mtok: 2 });
    const second = on('2027-01-01', { input_mtok: 3, output_mtok: 3 });
    expect(
      packagePrices(model([base, first, second]))?.map(({ from, input_price }) => [from, input_price]),
    ).toEqual([
      [null, '1'],
      ['2026-02-01', '2'],
      ['2027-01-01', '3'],
    ]);
  });

  it('are the dearest of the day, by class', () => {
    const prices = packagePrices(
      model([
        { prices: { input_mtok: 1, output_mtok: 9, cache_read_mtok: 0.1 } },
        during('00:30:00Z', '16:30:00Z', { input_mtok: 2, output_mtok: 8 }),
      ]),
    );
    // The second has no price of cache reads, so they cost its input.
    expect(prices).toMatchObject([{ input_price: '2', output_price: '9', cache_read_price: '2' }]);
  });

  it('ignore times of the day that a later price has replaced', () => {
    const prices = packagePrices(
      model([
        { prices: { input_mtok: 1, output_mtok: 1 } },
        during('00:00:00Z', '12:00:00Z', { input_mtok: 8, output_mtok: 8 }),
        on('2026-05-01', { input_mtok: 2, output_mtok: 2 }),
        during('01:00:00Z', '04:00:00Z', { input_mtok: 4, output_mtok: 4 }),
      ]),
    );
    expect(prices?.map(({ from, input_price }) => [from, input_price])).toEqual([
      [null, '8'],
      ['2026-05-01', '4'],
    ]);
  });

  it('are unknown where tokens have none, and no output is billed where only it has none', () => {
    expect(packagePrices(model({}))).toBeUndefined();
    expect(packagePrices(model({ audio_hours: 1 }))).toBeUndefined();
    expect(packagePrices(model({ input_mtok: 0.1 }))).toMatchObject([{ output_price: '0' }]);
  });

  it('stop the generator at a class of tokens that it does not know', () => {
    expect(() => packagePrices(model({ input_mtok: 1, input_smell_mtok: 2 }))).toThrow('input_smell_mtok');
  });
});

it('only exact names count', () => {
  expect(
    exactNames({
      or: [
        { equals: 'a' },
        { starts_with: 'a-' },
        { regex: '^a' },
        { or: [{ equals: 'b' }] },
        { and: [{ equals: 'c' }, { contains: 'x' }] },
      ],
    }),
  ).toEqual(['a', 'b']);
});
