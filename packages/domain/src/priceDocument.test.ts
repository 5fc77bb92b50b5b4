import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyPrice } from '../test/anyPrice.ts';
import { isSamePrice, knownPartOf, priceDocument, priceOf, priceOfDocument } from './priceDocument.ts';
import { TOKEN_CLASSES } from './tokenClasses.ts';

type Json = Record<string, unknown>;
const stored = (document: unknown) => JSON.parse(JSON.stringify(document)) as Json;

/** The places of a document that have rates, as objects that a test may change. */
const places = (document: Json): Json[] => {
  const tiers = (of: Json) => of.tiers as Json[];
  const variants = (document.variants ?? []) as Json[];
  return [document, ...tiers(document), ...variants, ...variants.flatMap(tiers)];
};
const member = (name: string) =>
  `${name.replace(/[A-Z]|\d+h/g, (part) => `_${part.toLowerCase()}`)}_nano_usd`;

describe('the document of a price', () => {
  it('reads as the same price, with every amount as a string', () => {
    fc.assert(
      fc.property(anyPrice, (price) => {
        const document = stored(priceDocument(price));
        expect(priceOfDocument(document)).toEqual(price);
        expect(knownPartOf(document)).toEqual(price);
        for (const place of places(document)) {
          for (const one of TOKEN_CLASSES) {
            expect(typeof (place[member(one)] ?? '')).toBe('string');
          }
        }
        expect(isSamePrice(price, { ...price, variants: price.variants.toReversed() })).toBe(true);
      }),
    );
  });

  it('names each class as the columns of earlier releases do, and leaves out what a price does not have', () => {
    const list = { input: 1n, output: 2n, cacheRead: 3n, cacheWrite: 4n, cacheWrite1h: 5n, outputImage: 6n };
    expect(priceDocument({ ...list, tiers: [], variants: [], toolPrices: {} })).toEqual({
      input_nano_usd: '1',
      output_nano_usd: '2',
      cache_read_nano_usd: '3',
      cache_write_nano_usd: '4',
      cache_write_1h_nano_usd: '5',
      output_image_nano_usd: '6',
      tiers: [],
    });
  });

  it('is not read if any place has a member that this release does not know, or lacks input or output', () => {
    fc.assert(
      fc.property(anyPrice, fc.nat(), (price, at) => {
        const changed = (change: (place: Json) => void) => {
          const document = stored(priceDocument(price));
          const all = places(document);
          change(all[at % all.length] as Json);
          expect(() => priceOfDocument(document)).toThrow('a price has');
          expect(priceOf({ ended: false, price: document })).toBeUndefined();
        };
        changed((place) => {
          place.of_a_later_release_nano_usd = '1';
        });
        for (const one of ['input', 'output']) changed((place) => delete place[member(one)]);
        expect(knownPartOf({ ...stored(priceDocument(price)), of_a_later_release_nano_usd: '1' })).toEqual(
          price,
        );
      }),
    );
  });

  it('has exact amounts of 64 bits alone', () => {
    const wrong = [1, 1.5, '1.5', '-1', '01', '', '1e3', ' 1', '9223372036854775808', true, {}];
    fc.assert(
      fc.property(anyPrice, fc.nat(), fc.constantFrom(...TOKEN_CLASSES), (price, at, one) => {
        for (const amount of wrong) {
          const document = stored(priceDocument(price));
          const all = places(document);
          (all[at % all.length] as Json)[member(one)] = amount;
          expect(() => priceOfDocument(document), String(amount)).toThrow('a price is an integer');
        }
        expect(() => priceDocument({ ...price, [one]: 2n ** 63n })).toThrow('a price is an integer');
        expect(() => priceDocument({ ...price, toolPrices: { search: -1n } })).toThrow(
          'a price is an integer',
        );
      }),
    );
  });

  it('is an object with lists and lengths as it says', () => {
    const document = stored(
      priceDocument({
        input: 1n,
        output: 1n,
        cacheRead: 1n,
        cacheWrite: 1n,
        cacheWrite1h: 1n,
        tiers: [],
        variants: [],
        toolPrices: {},
      }),
    );
    const tier = { ...document, tiers: undefined };
    const wrong: unknown[] = [
      null,
      [],
      'price',
      { ...document, tiers: {} },
      { ...document, tiers: [null] },
      { ...document, tiers: [{ ...tier, above_input_tokens: 0.5 }] },
      { ...document, tiers: [{ ...tier, above_input_tokens: 2 ** 32 }] },
      { ...document, tiers: [{ ...tier, above_input_tokens: '5' }] },
      { ...document, variants: [{ ...document, service_tier: 1 }] },
      { ...document, tool_prices: { search: 1 } },
    ];
    const read = wrong.filter((one) => {
      try {
        return priceOfDocument(stored({ one }).one);
      } catch {
        return false;
      }
    });
    expect(read).toEqual([]);
    expect(priceOfDocument(document)).toMatchObject({ input: 1n });
  });
});

it('a version that ended has no price', () => {
  expect(priceOf({ ended: true, price: null })).toBeUndefined();
});
