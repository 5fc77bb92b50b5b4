import { dataInPlace } from '@weighbridge/dialects';
import type { Span } from './scanJson.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const USAGE = Buffer.from('"usage"');
const NULL = Buffer.from('null');

/**
 * What to cut out of an event so that its data, a JSON object, lacks the members `"usage":null`: vendors add them to every
 * chunk if they are asked for the usage. Members of objects within it stay.
 */
export function nullUsageSpans(event: Buffer): Span[] {
  const { bytes, offset } = dataInPlace(event);
  const cuts: Span[] = [];
  let depth = 0;
  /** The comma, or the opening brace, before the members at the top. */
  let separator = -1;
  let hasKept = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      if (depth === 1 && separator >= 0) {
        const end = endOfNull(bytes, at);
        if (end < 0) hasKept = true;
        else cuts.push(hasKept ? { start: separator, end } : { start: at, end: afterComma(bytes, end) });
        separator = -1;
      }
      at = endOfString(bytes, at);
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (depth++ === 0) separator = at;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth--;
    else if (byte === COMMA && depth === 1) separator = at;
  }
  return offset === 0 ? cuts : cuts.map(({ start, end }) => ({ start: start + offset, end: end + offset }));
}

/** Where the value of a member that begins at `from` ends, if it is `"usage":null`; else -1. */
function endOfNull(bytes: Buffer, from: number): number {
  if (!isAt(bytes, USAGE, from)) return -1;
  const colon = afterSpace(bytes, from + USAGE.length);
  if (bytes[colon] !== COLON) return -1;
  const value = afterSpace(bytes, colon + 1);
  return isAt(bytes, NULL, value) ? value + NULL.length : -1;
}

/** The position of the quote that ends the string that begins at `from`. */
function endOfString(bytes: Buffer, from: number): number {
  let at = from + 1;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}

function afterComma(bytes: Buffer, from: number): number {
  const at = afterSpace(bytes, from);
  return bytes[at] === COMMA ? at + 1 : from;
}

function afterSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0a || bytes[at] === 0x0d) at++;
  return at;
}

function isAt(bytes: Buffer, text: Buffer, at: number): boolean {
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text[index]) return false;
  return true;
}
