import { createHash } from 'node:crypto';

const PLAIN_ID = /^[a-zA-Z0-9_-]+$/;
const PLAIN_NAME = /^[a-zA-Z_][a-zA-Z0-9_-]*$/;
const MAX_ID_LENGTH = 64;
const MAX_NAME_LENGTH = 64;
const HASH_LENGTH = 24;

/** The id of a call, as any vendor takes it: another one is hashed, to the same id each time. */
export function callId(id: string, length?: number): string {
  if (length !== undefined)
    return id.length === length && /^[a-zA-Z0-9]+$/.test(id) ? id : shortId(id, length);
  return id.length <= MAX_ID_LENGTH && PLAIN_ID.test(id) ? id : `call_${hashOf(id)}`;
}

/** Letters and digits only. */
function shortId(id: string, length: number): string {
  return createHash('sha256').update(id).digest('hex').slice(0, length);
}

/** The name of a tool, as any vendor takes it: of another one the beginning is kept, and a hash tells it apart. */
export function toolName(name: string): string {
  if (name.length <= MAX_NAME_LENGTH && PLAIN_NAME.test(name)) return name;
  const plain = name.replace(/[^a-zA-Z0-9_-]/g, '_').replace(/^(?![a-zA-Z_])/, '_');
  return `${plain.slice(0, MAX_NAME_LENGTH - 9)}_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}

/** A person or account that the vendor should tell apart, but not know. */
export function hashOf(value: string): string {
  return createHash('sha256').update(value).digest('base64url').slice(0, HASH_LENGTH);
}
