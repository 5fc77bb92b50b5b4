import type { Random } from './random.ts';

/** Text as it is written. */
export class Raw {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Member = readonly [name: string, value: unknown];

/** An object whose members may repeat. */
export class Members {
  readonly list: readonly Member[];
  constructor(list: readonly Member[]) {
    this.list = list;
  }
}

export interface Style {
  readonly gaps: readonly string[];
  /** The share of characters that are escaped though they need not be. */
  readonly escapes: number;
  /** The characters that are. */
  readonly escaped: RegExp;
}

const GAPS: readonly (readonly string[])[] = [[''], [''], ['', ' '], [' '], ['', '\n', '\r\n\t', '\t', '  ']];

/** Of what a client writes: any character may be escaped. */
export function anyStyle(random: Random): Style {
  return { gaps: random.pick(GAPS), escapes: random.chance(0.3) ? 0.1 : 0, escaped: /./s };
}

/** Of what a vendor writes: none escapes the letters of its names, by which answers are told apart. */
export function vendorStyle(random: Random): Style {
  return { gaps: random.pick(GAPS), escapes: random.chance(0.3) ? 0.5 : 0, escaped: /[^\w]/ };
}

/** Writes a value as JSON, in any of the forms in which it can be written. */
export function writeJson(random: Random, style: Style, value: unknown): string {
  const gap = () => random.pick(style.gaps);
  const write = (one: unknown): string => {
    if (one instanceof Raw) return one.text;
    if (one instanceof Members) return members(one.list);
    if (Array.isArray(one)) return list('[', one.map(write), ']');
    if (typeof one === 'object' && one !== null) {
      return members(Object.entries(one).filter(([, inner]) => inner !== undefined));
    }
    return typeof one === 'string' ? writeText(random, style, one) : JSON.stringify(one);
  };
  const list = (open: string, parts: readonly string[], close: string) =>
    `${open}${gap()}${parts.map((part) => part + gap()).join(`,${gap()}`)}${close}`;
  const members = (all: readonly Member[]) =>
    list(
      '{',
      all.map(([name, inner]) => `${writeText(random, style, name)}${gap()}:${gap()}${write(inner)}`),
      '}',
    );
  return `${gap()}${write(value)}${gap()}`;
}

function writeText(random: Random, { escapes, escaped }: Style, text: string): string {
  if (escapes === 0) return JSON.stringify(text);
  let written = '';
  // By UTF-16 unit, as escapes are.
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const isSurrogate = code >= 0xd800 && code <= 0xdfff;
    if (isSurrogate || (escaped.test(text[at] as string) && random.chance(escapes)))
      written += `\\u${code.toString(16).padStart(4, '0')}`;
    else if (text[at] === '/' && random.chance(0.3)) written += '\\/';
    else written += JSON.stringify(text[at]).slice(1, -1);
  }
  return `"${written}"`;
}

const WORDS = [
  '',
  'weigh',
  'Hello there',
  'é😀',
  '"',
  '\\',
  '\n\n',
  '\u0001\u007f',
  'null',
  '"usage":null',
  '"usage":{"prompt_tokens":1,"completion_tokens":1}',
  ',"usage":{',
  '{"model":"inner"}',
  '"error"',
  '}]}',
  'data: [DONE]',
  'data: {}\n\n',
  '</s>',
];
const NAMES = [
  'a',
  'usage',
  'Usage',
  'model',
  'stream',
  'id',
  'x"y',
  'é',
  '',
  'toString',
  'n',
  'error',
  'choices',
  'item',
];

export function anyText(random: Random): string {
  const word = random.pick(WORDS);
  // Long enough to pass the lengths from which a string is searched, not looped over.
  return random.chance(0.15) ? `${'some text '.repeat(random.integer(45))}${word}` : word;
}

const NUMBERS = [
  '0',
  '-0',
  '1',
  '-1',
  '12',
  '1.0',
  '0.5',
  '1e3',
  '4E+2',
  '1e-7',
  '1e999',
  '9007199254740993',
  '300000000000000',
];

export function anyNumber(random: Random): Raw {
  return new Raw(random.pick(NUMBERS));
}

export function anyValue(random: Random, depth = 3): unknown {
  const kind = random.integer(depth > 0 ? 8 : 5);
  if (kind === 0) return null;
  if (kind === 1) return random.chance(0.5);
  if (kind === 2) return anyNumber(random);
  if (kind < 5) return anyText(random);
  const size = random.integer(4);
  if (kind < 7) {
    return new Members(
      Array.from({ length: size }, () => [random.pick(NAMES), anyValue(random, depth - 1)] as const),
    );
  }
  return Array.from({ length: size }, () => anyValue(random, depth - 1));
}

/** The same members in another order. */
export function shuffled(random: Random, members: readonly Member[]): Member[] {
  const left = [...members];
  for (let at = left.length - 1; at > 0; at--) {
    const other = random.integer(at + 1);
    [left[at], left[other]] = [left[other] as Member, left[at] as Member];
  }
  return left;
}
