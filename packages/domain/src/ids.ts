import { TypeID, typeid } from 'typeid-js';
import { v7 } from 'uuid';

/** The prefix says what an id names; the rest is a UUIDv7, so ids sort by time (https://github.com/jetify-com/typeid). */
export type IdPrefix = 'key' | 'pol' | 'con' | 'prf' | 'req';

export function newId(prefix: IdPrefix): string {
  return typeid(prefix).toString();
}

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
