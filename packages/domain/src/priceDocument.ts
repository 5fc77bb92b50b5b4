import { isDeepStrictEqual } from 'node:util';
import type { ModelPrice, Price } from './modelPrice.ts';
import { type PriceForm, type PriceJson, readPrice, writePrice } from './priceForm.ts';
import { classKeys } from './tokenClasses.ts';

/** A price as the database has it. Amounts are decimal strings, since most readers parse JSON numbers as floats. */
export type PriceDocument = PriceJson<string>;

const members = classKeys('', '_nano_usd');
const STRUCTURE = [
  'tiers',
  'above_input_tokens',
  'variants',
  'service_tier',
  'speed',
  'geography',
  'tool_prices',
];
const FORM: PriceForm<string> = {
  members,
  only: new Set([...Object.values(members), ...STRUCTURE]),
  nano: nanoOfText,
  amount: String,
  hasNulls: false,
};

/** The document of a price, without what the price does not have. Throws for a price that could not be read again. */
export function priceDocument(price: Price): PriceDocument {
  const { variants, tool_prices, ...list } = writePrice(FORM, price);
  const document = {
    ...list,
    ...(variants.length > 0 && { variants }),
    ...(Object.keys(tool_prices).length > 0 && { tool_prices }),
  };
  priceOfDocument(document);
  return document;
}

/** The price of a document. Throws if this release can't read all of it: it is damaged, or of a newer release. */
export function priceOfDocument(document: unknown): Price {
  return readPrice(FORM, document as PriceDocument);
}

/** The price of a document as far as this release knows it: to show or compare it, not to charge by it. */
export function knownPartOf(document: unknown): Price {
  const { only: _, ...form } = FORM;
  return readPrice(form, document as PriceDocument);
}

/** What the row of a version has of its price. */
export interface PriceRow {
  readonly ended: boolean;
  readonly price: unknown;
}

/**
 * The price of a version; undefined if it ended the price, or if this release can't read it: without a part that it does not know,
 * usage could be charged too little, while a model without a price is not served.
 */
export function priceOf({ ended, price }: PriceRow): Price | undefined {
  try {
    return ended ? undefined : priceOfDocument(price);
  } catch {
    return undefined;
  }
}

/** As `priceOf`, with its version. */
export function modelPriceOf(row: PriceRow & { readonly version: number }): ModelPrice | undefined {
  const price = priceOf(row);
  return price && { version: row.version, ...price };
}

export function isSamePrice(a: Price | undefined, b: Price): boolean {
  return a !== undefined && isDeepStrictEqual(comparablePrice(a), comparablePrice(b));
}

/** Deeply equal for equal prices. The order of variants means nothing: each is for other conditions. */
export function comparablePrice(price: Price): PriceDocument {
  const text = ({ service }: Price['variants'][number]) => JSON.stringify(Object.values(service));
  const variants = price.variants.toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
  return writePrice(FORM, { ...price, variants });
}

const AMOUNT = /^(0|[1-9]\d{0,18})$/;
/** Of a 64-bit integer, as columns and protobuf have amounts. */
const MAX_AMOUNT = 2n ** 63n - 1n;

function nanoOfText(text: string): bigint {
  if (typeof text === 'string' && AMOUNT.test(text)) {
    const nano = BigInt(text);
    if (nano <= MAX_AMOUNT) return nano;
  }
  throw new Error('a price is an integer of nano-USD, as a text');
}
