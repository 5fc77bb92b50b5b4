import { randomBytes } from 'node:crypto';

/** A new id: the prefix and 32 hexadecimal digits. */
export function newId(prefix: string): string {
  return prefix + randomBytes(16).toString('hex');
}
