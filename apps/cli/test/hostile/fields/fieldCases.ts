import {
  type Field,
  type Fields,
  GEMINI_OPERATIONS,
  OPERATIONS,
  type Operation,
} from '@weighbridge/data-plane/tables';

/** How a request is served: as it is, under a hard policy, under one that restricts models, or by a vendor of another dialect. */
export const WAYS = ['plain', 'hard', 'restricted', 'translated'] as const;
export type Way = (typeof WAYS)[number];

/** One field of one table, with a value that no client sends. */
export interface FieldCase {
  readonly title: string;
  readonly way: Way;
  readonly url: string;
  readonly isTranslated: boolean;
  /** What stands before and after the value. */
  readonly prefix: string;
  readonly suffix: string;
  readonly value: ValueName;
}

const MIB = 2 ** 20;
const VALUE_BYTES = 30 * MIB;

/** By name: what is sent in place of a value. */
const VALUES = {
  text: () => `"${'x'.repeat(VALUE_BYTES)}"`,
  number: () => '9'.repeat(VALUE_BYTES),
  objects: () => `[${'{},'.repeat(VALUE_BYTES / 3)}{}]`,
  texts: () => `[${'"ab",'.repeat(VALUE_BYTES / 5)}"ab"]`,
  members: () => `{${Array.from({ length: 2_000_000 }, (_, at) => `"k${at}":0`).join()}}`,
  levels: () => '['.repeat(100_000) + ']'.repeat(100_000),
} as const;
export type ValueName = keyof typeof VALUES;
export const VALUE_NAMES = Object.keys(VALUES) as ValueName[];

const made = new Map<ValueName, Buffer>();
export function bytesOf(name: ValueName): Buffer {
  const known = made.get(name) ?? Buffer.from(VALUES[name](), 'latin1');
  made.set(name, known);
  return known;
}

const MESSAGES = '"messages":[{"role":"user","content":"weigh"}]';
const CONTENT = '{"parts":[{"text":"weigh"}]}';
/** What a request needs beside the field that is tried, by the member's name. */
const NEEDED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/chat/completions': { messages: MESSAGES },
  '/responses': { input: '"input":"weigh"' },
  '/messages': { messages: MESSAGES, max_tokens: '"max_tokens":16' },
  '/messages/count_tokens': { messages: MESSAGES },
  '/embeddings': { input: '"input":"weigh"' },
  '/completions': { prompt: '"prompt":"weigh"' },
  '/responses/input_tokens': { input: '"input":"weigh"' },
  '/responses/compact': { input: '"input":"weigh"' },
  generateContent: { contents: `"contents":[${CONTENT}]` },
  countTokens: { contents: `"contents":[${CONTENT}]` },
  embedContent: { content: `"content":${CONTENT}` },
  batchEmbedContents: { requests: `"requests":[{"content":${CONTENT}}]` },
};
const NATIVE = { openai: 'openai/plain', anthropic: 'anthropic/plain', gemini: 'gemini/plain' } as const;
const OTHER = { openai: 'anthropic/plain', anthropic: 'local/plain', gemini: 'local/plain' } as const;

/** Where a value may stand: at each field of the tables, however deep. */
interface Place {
  readonly path: string;
  readonly prefix: string;
  readonly suffix: string;
}

const MAX_DEPTH = 12;

/** The field itself, and all that is in it. */
function* placesIn(field: Field, at: Place, depth = 0): Generator<Place> {
  yield at;
  if (depth > MAX_DEPTH) return;
  const { value, refers } = field;
  const members = function* (fields: Fields, tag = ''): Generator<Place> {
    for (const [name, inner] of Object.entries(fields)) {
      const prefix = `${at.prefix}{${tag}"${name}":`;
      yield* placesIn(inner, { path: `${at.path}.${name}`, prefix, suffix: `}${at.suffix}` }, depth + 1);
    }
  };
  const item = (inner: Field) =>
    placesIn(inner, { path: `${at.path}[]`, prefix: `${at.prefix}[`, suffix: `]${at.suffix}` }, depth + 1);
  if (refers) yield* members(refers);
  if (value.kind === 'object') yield* members(value.fields);
  else if (value.kind === 'list') yield* item(value.item);
  else if (value.kind === 'map') yield* members({ key: value.item });
  else if (value.kind === 'kinds') {
    for (const inner of [value.list, value.object]) if (inner) yield* placesIn(inner, at, depth + 1);
  } else if (value.kind === 'variants') {
    for (const [tag, inner] of Object.entries(value.variants)) {
      const fields = inner.value.kind === 'object' ? inner.value.fields : {};
      yield* members({ ...fields, ...inner.refers }, `"${value.tag}":"${tag}",`);
    }
    if (value.untagged?.value.kind === 'object') yield* members(value.untagged.value.fields);
  }
}

/** Every case: each place of each table with each value, on each route, in each way. */
export function allFieldCases(): FieldCase[] {
  return [...OPERATIONS, ...GEMINI_OPERATIONS].flatMap((operation) =>
    WAYS.flatMap((way) => (way === 'translated' && !operation.isTranslated ? [] : casesOf(operation, way))),
  );
}

function casesOf(operation: Operation, way: Way): FieldCase[] {
  const { dialect, requestFields, method } = operation;
  const model = way === 'translated' ? OTHER[dialect] : NATIVE[dialect];
  const needed = { ...NEEDED[method ?? operation.path], ...(!method && { model: `"model":"${model}"` }) };
  const urls =
    method === undefined
      ? [`/v1${operation.path}`]
      : [method, ...(method === 'generateContent' ? ['streamGenerateContent'] : [])].map(
          (one) => `/v1beta/models/${model}:${one}`,
        );
  return Object.entries(requestFields).flatMap(([name, field]) => {
    const others = Object.entries(needed).flatMap(([other, text]) => (other === name ? [] : [`${text},`]));
    const start = { path: name, prefix: `{${others.join('')}"${name}":`, suffix: '}' };
    const places = new Map([...placesIn(field, start)].map((place) => [place.prefix, place]));
    return [...places.values()].flatMap(({ path, prefix, suffix }) =>
      urls.flatMap((url) =>
        VALUE_NAMES.map((value) => ({
          title: `${way} ${url} ${path}: ${value}`,
          way,
          url,
          isTranslated: way === 'translated',
          prefix,
          suffix,
          value,
        })),
      ),
    );
  });
}

/** A field that no table has: what reading its body costs is what reading any body costs. */
export function unreadCase(value: ValueName): FieldCase {
  const prefix = `{"model":"openai/plain",${MESSAGES},"x_unread":`;
  const url = '/v1/chat/completions';
  return { title: `unread: ${value}`, way: 'plain', url, isTranslated: false, prefix, suffix: '}', value };
}
