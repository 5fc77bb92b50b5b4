import {
  mapRates,
  type Price,
  type PriceVariant,
  TOKEN_CLASSES,
  type TokenPrices,
} from '@weighbridge/domain';
import type { ListedPrice } from '@weighbridge/price-lists';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { heldBecause } from './heldBecause.ts';
import { firstPrice, mergedPrice } from './mergedPrice.ts';

const rates = (input: bigint, output: bigint, more: Partial<TokenPrices> = {}): TokenPrices => ({
  input,
  output,
  cacheRead: input,
  cacheWrite: input,
  cacheWrite1h: input,
  ...more,
});
const price = (list: TokenPrices, more: Partial<Price> = {}): Price => ({
  ...list,
  tiers: [],
  variants: [],
  toolPrices: { web_search: 10n },
  ...more,
});
const feed = (stated: ListedPrice['rates'], tiers: ListedPrice['tiers'] = []): ListedPrice => ({
  rates: stated,
  tiers,
});
const PRIORITY = { serviceTier: 'priority', speed: '', geography: '' };
const variant = (list: TokenPrices): PriceVariant => ({ service: PRIORITY, ...list, tiers: [] });

describe('a price with what a feed states', () => {
  it('is the same if the feed states the same', () => {
    const current = price(rates(100n, 400n, { cacheRead: 10n, inputAudio: 300n }), {
      tiers: [{ aboveInputTokens: 5, ...rates(200n, 800n, { cacheRead: 20n }) }],
      variants: [variant(rates(250n, 1_000n))],
    });
    expect(mergedPrice(current, feed({ input: 100n, output: 400n, cacheRead: 10n }))).toEqual(current);
  });

  it('follows a rise in everything that the feed does not state', () => {
    const current = price(rates(100n, 400n, { cacheRead: 10n, outputAudio: 800n, inputAudio: 300n }), {
      tiers: [{ aboveInputTokens: 5, ...rates(200n, 800n, { cacheRead: 20n }) }],
      variants: [variant(rates(250n, 1_000n, { cacheRead: 25n }))],
    });
    const merged = mergedPrice(current, feed({ input: 150n, output: 800n }));
    expect(merged).toMatchObject({ input: 150n, output: 800n, cacheRead: 15n, cacheWrite: 150n });
    expect(merged).toMatchObject({ inputAudio: 450n, outputAudio: 1_600n, toolPrices: { web_search: 10n } });
    expect(merged.tiers[0]).toMatchObject({
      aboveInputTokens: 5,
      input: 300n,
      output: 1_600n,
      cacheRead: 30n,
    });
    expect(merged.variants[0]).toMatchObject({ input: 375n, output: 2_000n, cacheRead: 38n });
  });

  it('keeps what the feed does not state when prices fall; classes that cost the input follow it', () => {
    const current = price(rates(100n, 400n, { cacheRead: 60n, inputImage: 100n, inputAudio: 100n }), {
      tiers: [{ aboveInputTokens: 5, ...rates(200n, 800n) }],
      variants: [variant(rates(250n, 1_000n))],
    });
    const merged = mergedPrice(current, feed({ input: 50n, output: 200n }));
    expect(merged).toMatchObject({ input: 50n, output: 200n, cacheRead: 60n, cacheWrite: 50n });
    expect(merged).toMatchObject({ inputImage: 50n, inputAudio: 100n });
    expect(merged.tiers[0]).toMatchObject({ input: 200n, output: 800n });
    expect(merged.variants[0]).toMatchObject({ input: 250n, output: 1_000n });
  });

  it('takes the tiers of the feed, none of them below the list where they leave a class out', () => {
    const current = price(rates(100n, 400n), { variants: [variant(rates(250n, 1_000n))] });
    const merged = mergedPrice(
      current,
      feed({ input: 100n, output: 500n, cacheRead: 40n }, [
        { aboveInputTokens: 9, rates: { input: 200n, output: 600n } },
      ]),
    );
    expect(merged.tiers).toMatchObject([
      { aboveInputTokens: 9, input: 200n, output: 600n, cacheWrite: 200n },
    ]);
    // The list price doubles from there on, so does the variant, which the feed does not know.
    expect(merged.variants[0]?.tiers).toMatchObject([{ aboveInputTokens: 9, input: 500n, output: 1_500n }]);
  });

  it('keeps the length of a tier that the feed states one token higher', () => {
    const long = { aboveInputTokens: 271_999, ...rates(200n, 800n) };
    const current = price(rates(100n, 400n), { tiers: [long] });
    const stated = { aboveInputTokens: 272_000, rates: { input: 200n, output: 800n } };
    expect(mergedPrice(current, feed({ input: 100n, output: 400n }, [stated]))).toEqual(current);
  });

  it('takes a zero beside a price for not known', () => {
    const current = price(rates(100n, 400n, { cacheRead: 10n }));
    expect(mergedPrice(current, feed({ input: 100n, output: 400n, cacheRead: 0n }))).toEqual(current);
  });

  it('is nowhere below both what was in force and what the feed states', () => {
    const amount = fc.bigInt({ min: 1n, max: 10n ** 12n });
    const all = fc.record({ input: amount, output: amount, cacheRead: amount, cacheWrite: amount });
    const some = fc.record({
      input: amount,
      output: amount,
      cacheRead: fc.option(amount, { nil: undefined }),
    });
    fc.assert(
      fc.property(all, some, fc.bigInt({ min: 100n, max: 900n }), (old, stated, permille) => {
        const list: TokenPrices = { ...old, cacheWrite1h: old.cacheWrite };
        const scaled = (rate: bigint) => (rate * permille + 99n) / 100n;
        const dear: TokenPrices = mapRates(list, scaled);
        const before = price(list, { variants: [variant(dear)] });
        const known = Object.fromEntries(Object.entries(stated).filter(([, rate]) => rate !== undefined));
        const merged = mergedPrice(before, feed(known));
        for (const name of TOKEN_CLASSES) {
          const [was, is] = [before[name], merged[name]];
          if (was === undefined || is === undefined) continue;
          const least = (known as Partial<TokenPrices>)[name] ?? (was === list.input ? stated.input : was);
          expect(is >= least).toBe(true);
          // The multiple of the variant never shrinks when the list price rises.
          const [dearWas, dearIs] = [dear[name] ?? 0n, merged.variants[0]?.[name] ?? 0n];
          expect(dearIs >= dearWas && dearIs * was >= dearWas * is).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('of a model without one needs an input and an output', () => {
    expect(firstPrice(feed({ input: 1n }))).toBeUndefined();
    expect(firstPrice(feed({ input: 5n, output: 7n, cacheWrite: 6n }))).toEqual({
      input: 5n,
      output: 7n,
      cacheRead: 5n,
      cacheWrite: 6n,
      cacheWrite1h: 6n,
      tiers: [],
      variants: [],
      toolPrices: {},
    });
  });
});

describe('a change', () => {
  const held = (before: TokenPrices, after: TokenPrices) => heldBecause(price(before), price(after));
  it.each([
    [100n, 10n, undefined],
    [100n, 9n, 'input_price falls by more than 90 %'],
    [100n, 0n, 'input_price falls by more than 90 %'],
    [100n, 1_000n, undefined],
    [100n, 1_001n, 'input_price rises to more than 10 times'],
    [0n, 1n, 'input_price rises to more than 10 times'],
    [0n, 0n, undefined],
  ])('from %d to %d is held: %s', (before, after, because) => {
    const kept = { cacheRead: 5n, cacheWrite: 5n, cacheWrite1h: 5n };
    expect(held(rates(before, 7n, kept), rates(after, 7n, kept))).toBe(because);
  });

  it('is held for any class, and at any length', () => {
    expect(held(rates(100n, 100n), rates(100n, 100n, { cacheWrite1h: 1n }))).toContain(
      'cache_write_1h_price',
    );
    const long = (input: bigint) =>
      price(rates(100n, 100n), { tiers: [{ aboveInputTokens: 9, ...rates(input, 100n) }] });
    expect(heldBecause(long(200n), long(10n))).toContain('input_price falls');
    expect(heldBecause(price(rates(100n, 100n)), long(10_000n))).toContain('input_price rises');
  });

  it('is held if a class without a price gets one below text', () => {
    expect(held(rates(100n, 400n), rates(100n, 400n, { outputAudio: 399n }))).toContain('output_audio_price');
    expect(held(rates(100n, 400n), rates(100n, 400n, { outputAudio: 400n }))).toBeUndefined();
  });
});
