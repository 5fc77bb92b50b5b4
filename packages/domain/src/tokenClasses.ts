/** Every price has these. `orElse`: whose price holds for a class that a price leaves out. */
const TEXT = {
  /** Input tokens that were neither read from nor written to the vendor's prompt cache. */
  input: {},
  /** Output tokens, including reasoning. */
  output: {},
  cache_read: { orElse: 'input' },
  /** Written to the prompt cache with the default time to live (five minutes if the vendor offers several). */
  cache_write: { orElse: 'input' },
  cache_write_1h: { orElse: 'cache_write' },
} as const;

/**
 * Only some models have these, and an absent price is not known. `partOf`: the class of text whose column in the ledger includes
 * them. `dearestUsd`: the dearest price that a vendor publishes, as of 2026-11, which usage without a price is charged at least:
 * audio: `gpt-4o-realtime-preview`, cached or not; images: `gpt-image-1` in, `gemini-3-pro-image-preview` out. Vendors bill
 * images as tokens of text, unless they list a price.
 */
const MEDIA = {
  input_audio: { partOf: 'input', dearestUsd: '100' },
  input_image: { partOf: 'input', dearestUsd: '10', orElse: 'input' },
  cache_read_audio: { partOf: 'cache_read', dearestUsd: '20' },
  output_audio: { partOf: 'output', dearestUsd: '200' },
  output_image: { partOf: 'output', dearestUsd: '120' },
} as const;

/**
 * The classes of tokens that prices and usage tell apart. Each has one row above, from which the fields of the API and of files,
 * the members of documents, the protobuf fields and the types follow, in this order. A new class also needs a field in the protobuf
 * messages `Rates` and `TokenUsage`: without one of them, its codec does not compile. Sums that are unrolled
 * for speed name each class too: `costOf`, tokenUsage.ts, and `INPUT_CLASSES` of estimate.ts. Their tests go over all classes.
 */
const ROWS = { ...TEXT, ...MEDIA } as const;

type Camel<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;
type NameOf = { readonly [Name in keyof typeof ROWS as Camel<Name>]: Name };

/** A class of tokens that every price has. */
export type TextClass = Camel<keyof typeof TEXT>;
/** A class of tokens besides text. */
export type MediaClass = Camel<keyof typeof MEDIA>;
export type TokenClass = TextClass | MediaClass;

const camel = <Name extends string>(name: Name) =>
  name.replace(/_(.)/g, (_, first: string) => first.toUpperCase()) as Camel<Name>;
const namesOf = <Rows extends object>(rows: Rows) => Object.keys(rows) as (keyof Rows & string)[];

export const TEXT_CLASSES: readonly TextClass[] = namesOf(TEXT).map(camel);
export const MEDIA_CLASSES: readonly MediaClass[] = namesOf(MEDIA).map(camel);
/** In the order in which prices are written. */
export const TOKEN_CLASSES: readonly TokenClass[] = [...TEXT_CLASSES, ...MEDIA_CLASSES];

/** What the API, files and columns call each class, such as `cache_read`. */
export const CLASS_NAMES = Object.fromEntries(namesOf(ROWS).map((name) => [camel(name), name])) as NameOf;

/** As `CLASS_NAMES`, with something before and after, such as `cache_read_price`. */
export function classKeys<Before extends string, After extends string>(before: Before, after: After) {
  return byClass((one) => `${before}${CLASS_NAMES[one]}${after}`) as {
    readonly [Class in TokenClass]: `${Before}${NameOf[Class]}${After}`;
  };
}

/** The value of each class. */
export function byClass<Value>(of: (tokenClass: TokenClass) => Value): Record<TokenClass, Value> {
  const values: Partial<Record<TokenClass, Value>> = {};
  for (const one of TOKEN_CLASSES) values[one] = of(one);
  return values as Record<TokenClass, Value>;
}

/** The class whose price holds for one that a price leaves out; undefined: none does. */
export const OR_ELSE = byClass((one) => {
  const row = ROWS[CLASS_NAMES[one]];
  return 'orElse' in row ? camel(row.orElse) : undefined;
});

/** The class of text whose column in the ledger includes the tokens of a medium. */
export const PART_OF = Object.fromEntries(
  namesOf(MEDIA).map((name) => [camel(name), camel(MEDIA[name].partOf)]),
) as Readonly<Record<MediaClass, TextClass>>;

/** The dearest published price of each medium, in USD per one million tokens. */
export const DEAREST_USD = Object.fromEntries(
  namesOf(MEDIA).map((name) => [camel(name), MEDIA[name].dearestUsd]),
) as Readonly<Record<MediaClass, string>>;

/** What the API and files call the price of each class. */
export const PRICE_FIELDS = classKeys('', '_price');
export type PriceField<Class extends TokenClass = TokenClass> = (typeof PRICE_FIELDS)[Class];

/** The fields of a price, in the order in which they are written: `one` for some classes, `other` for the rest. */
export function priceFields<Class extends TokenClass, One, Other>(
  classes: readonly Class[],
  one: One,
  other: Other,
) {
  const fields = TOKEN_CLASSES.map((name) => {
    return [PRICE_FIELDS[name], (classes as readonly TokenClass[]).includes(name) ? one : other];
  });
  return Object.fromEntries(fields) as { readonly [Name in PriceField<Class>]: One } & {
    readonly [Name in PriceField<Exclude<TokenClass, Class>>]: Other;
  };
}

/** What the API and the ledger's details call the tokens of each class. */
export const TOKEN_FIELDS = classKeys('', '_tokens');

/** The fields of the tokens of each medium. */
export function mediaTokenFields<Value>(of: (media: MediaClass) => Value) {
  return Object.fromEntries(MEDIA_CLASSES.map((media) => [TOKEN_FIELDS[media], of(media)])) as {
    readonly [Field in (typeof TOKEN_FIELDS)[MediaClass]]: Value;
  };
}
