import { randomBytes } from 'node:crypto';
import type { VendorTraits } from './traits.ts';

/** Of a call in chat completions. Mistral's have nine characters, where conversations are checked. */
export function newCallId({ refusesStreamOptions, checksHistory }: VendorTraits): string {
  return refusesStreamOptions && checksHistory ? randomBytes(8).toString('hex').slice(0, 9) : newId('call_');
}

/** A new id: the prefix and 32 hexadecimal digits. */
export function newId(prefix: string): string {
  return prefix + randomBytes(16).toString('hex');
}
