import { TypeID } from 'typeid-js';
import { v7 } from 'uuid';

/** The prefix says what an id names; the rest is a UUIDv7, so ids sort by time (https://github.com/jetify-com/typeid). */
export type IdPrefix = 'key' | 'pol' | 'con' | 'prf' | 'req';

export function newId(prefix: IdPrefix): string {
  v7(undefined, fresh);
  // 128 bits, five to a character, from the right: the first has the three that are left.
  let text = `${prefix}_`;
  let bits = 2;
  let value = 0;
  for (const byte of fresh) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32[(value >>> bits) & 31];
    }
    value &= 31;
  }
  return text;
}

/** Crockford's alphabet, in lower case, as in the specification of these ids. */
const BASE32 = '0123456789abcdefghjkmnpqrstvwxyz';
/** Of one call at a time: each request has an id, and a buffer for each would be most of what it costs. */
const fresh = new Uint8Array(16);

/** False for another type's id and for anything malformed: to a caller both simply name nothing. */
export function isId(prefix: IdPrefix, text: string): boolean {
  try {
    return TypeID.fromString(text).getType() === prefix;
  } catch {
    return false;
  }
}

/**
 * A principal's id is the operator's own string, an e-mail address or a service's name. It stands in paths, where clients
 * resolve `.` and `..` away, and in headers, where spaces at the ends are lost.
 */
export function isPrincipalId(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]{1,200}$/u.test(text) && text.trim() === text && !/^\.\.?$/.test(text);
}

/** When an id was made, by the clock of whoever made it, in Unix milliseconds. */
export function idTimeMs(id: string): number {
  return Number.parseInt(TypeID.fromString(id).toUUID().replaceAll('-', '').slice(0, 12), 16);
}

/** A UUIDv7: unique, and sorted by time. */
export function newUuid(): string {
  return v7();
}
