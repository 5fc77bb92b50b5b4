import { randomFillSync } from 'node:crypto';
import { TypeID } from 'typeid-js';

/** An id is a prefix, for its type, and a UUIDv7, so ids sort by time (https://github.com/jetify-com/typeid). */
export type IdPrefix =
  | 'key'
  | 'pol'
  | 'con'
  | 'prf'
  | 'als'
  | 'req'
  | 'fch'
  | 'team'
  | 'whk'
  | 'evt'
  | 'whd'
  | 'ovr'
  | 'lim';

export function newId(prefix: IdPrefix): string {
  nextUuid();
  // 128 bits, five per character, from the right; the first character has three.
  let at = 0;
  let bits = 2;
  let value = 0;
  for (let from = 0; from < 16; from++) {
    value = (value << 8) | (fresh[from] ?? 0);
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      written[at++] = BASE32_CODES[(value >>> bits) & 31] ?? 0;
    }
    value &= 31;
  }
  return `${prefix}_${written.toString('latin1', 0, at)}`;
}

/** Crockford's alphabet in lower case, by the TypeID specification. */
const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz';
const BASE32_CODES = Buffer.from(BASE32);
/** The characters of the latest id: a text made of single characters takes several times as long, and a KB of memory. */
const written = Buffer.alloc(36);

/** False for an id of another type, and for a malformed one. */
export function isId(prefix: IdPrefix, text: string): boolean {
  try {
    return TypeID.fromString(text).getType() === prefix;
  } catch {
    return false;
  }
}

/**
 * A principal's id is any string of the operator, such as an e-mail address. It is used in paths, where clients resolve `.`
 * and `..`, and in headers, where surrounding spaces are lost.
 */
export function isPrincipalId(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]{1,200}$/u.test(text) && text.trim() === text && !/^\.\.?$/.test(text);
}

/** When an id was created, by its creator's clock, in Unix milliseconds. */
export function idTimeMs(id: string): number {
  // The first ten characters are the 48 bits of the time. An id that a client made up need not be a UUID beyond that.
  const time = id.slice(id.lastIndexOf('_') + 1).slice(0, 10);
  return [...time].reduce((value, character) => value * 32 + BASE32.indexOf(character), 0);
}

/** A UUIDv7: unique, and sorted by time. */
export function newUuid(): string {
  nextUuid();
  let at = 0;
  for (let from = 0; from < 16; from++) {
    const byte = fresh[from] ?? 0;
    written[at++] = HEX_CODES[byte >>> 4] ?? 0;
    written[at++] = HEX_CODES[byte & 15] ?? 0;
    if (from === 3 || from === 5 || from === 7 || from === 9) written[at++] = DASH;
  }
  return written.toString('latin1', 0, at);
}

const HEX_CODES = Buffer.from('0123456789abcdef');
const DASH = 0x2d;
/** The bytes of the latest id. Reused, because allocating a buffer would be most of an id's cost. */
const fresh = new Uint8Array(16);
/** Unused random bytes: a large read costs little more than a small one. */
const pool = new Uint8Array(4_096);
let poolAt = pool.length;
let latestMs = 0;
/** Orders the ids of one millisecond. */
let count = 0;
const MOST = 0xfff;
/** If the clock is set back further, ids follow it; otherwise their time would be wrong until the process ends. */
const MAX_AHEAD_MS = 60_000;

/** RFC 9562, section 5.7, with the counter of its section 6.2 in the bits beside the version. */
function nextUuid(): void {
  if (poolAt + 10 > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  const nowMs = Date.now();
  if (nowMs > latestMs || latestMs - nowMs > MAX_AHEAD_MS) {
    latestMs = nowMs;
    // Leaves half of the range for counting.
    count = ((pool[poolAt] ?? 0) << 3) | ((pool[poolAt + 1] ?? 0) >> 5);
  } else if (++count > MOST) {
    latestMs++;
    count = 0;
  }
  const high = Math.floor(latestMs / 2 ** 32);
  fresh[0] = high >>> 8;
  fresh[1] = high;
  fresh[2] = latestMs >>> 24;
  fresh[3] = latestMs >>> 16;
  fresh[4] = latestMs >>> 8;
  fresh[5] = latestMs;
  fresh[6] = 0x70 | (count >>> 8);
  fresh[7] = count;
  for (let at = 8; at < 16; at++) fresh[at] = pool[poolAt + at - 6] ?? 0;
  fresh[8] = 0x80 | ((fresh[8] ?? 0) & 0x3f);
  poolAt += 10;
}
