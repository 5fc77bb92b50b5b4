import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import { type Key, KeySchema } from '@weighbridge/contracts';
import type { PolicyChain } from './policyTable.ts';

/**
 * A key at a revision: a newer response makes a new entry. A proxy caches hundreds of thousands, so an entry is small: it
 * shares what most keys have in common and leaves the rest encoded.
 */
export interface KeyEntry {
  /** The key in protobuf, one Latin-1 character per byte: the smallest form in V8. */
  readonly packed: string;
  /** Its policies, and those that replace one of them when its budget is used up. */
  readonly chain: PolicyChain;
  readonly revision: bigint;
  /** When its counters were read, monotonic, in whole milliseconds. */
  readonly readAtMs: number;
  /** The age at which they must be read again. */
  readonly maxAgeMs: number;
  /** The store's generation when it was stored; if the store's differs now, the key is read again. */
  generation: number;
}

/** Where and when a key was read. */
export type KeySource = Pick<KeyEntry, 'revision' | 'readAtMs' | 'maxAgeMs'>;

/** The entry object and its places in the store, beside the key's bytes. */
const ENTRY_OVERHEAD_BYTES = 300;
/** A row of a policy, with its places in the table and in a chain. */
const LINK_BYTES = 300;

let latestRevision = 0n;

export function keyEntry(key: Key, chain: PolicyChain, source: KeySource, generation: number): KeyEntry {
  // A bigint is a heap object: entries of the same revision share it.
  if (source.revision !== latestRevision) latestRevision = source.revision;
  return {
    packed: Buffer.from(toBinary(KeySchema, key)).toString('latin1'),
    chain,
    revision: latestRevision,
    readAtMs: Math.floor(source.readAtMs),
    maxAgeMs: source.maxAgeMs,
    generation,
  };
}

export function keyBytes({ packed }: KeyEntry): Buffer {
  return Buffer.from(packed, 'latin1');
}

/** The key as the control plane sent it. */
export function unpackedKey(entry: KeyEntry): Key {
  return fromBinary(KeySchema, keyBytes(entry));
}

/** A text in the form that a packed key has it. */
export function packText(text: string): string {
  return Buffer.from(text).toString('latin1');
}

const { id: ID, principalId: PRINCIPAL_ID } = KeySchema.field;

/** The packed ids, read without decoding the rest: an invalidation checks every key. */
export function packedIds({ packed }: KeyEntry): { readonly id: string; readonly principalId: string } {
  const id = textAt(packed, 0, ID.number);
  const principalId = textAt(packed, id.end, PRINCIPAL_ID.number);
  return { id: id.text, principalId: principalId.text };
}

/** The field's text if the field starts at `start`; protobuf omits an empty one. */
function textAt(
  packed: string,
  start: number,
  field: number,
): { readonly text: string; readonly end: number } {
  if (packed.charCodeAt(start) !== ((field << 3) | WireType.LengthDelimited)) return { text: '', end: start };
  let length = 0;
  let at = start + 1;
  for (let shift = 0; ; shift += 7) {
    const byte = packed.charCodeAt(at++);
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return { text: packed.slice(at, at + length), end: at + length };
}

/** The entry's size in the store. A shared chain is counted with its first key only. */
export function entryBytes({ packed, chain }: KeyEntry): number {
  return packed.length + ENTRY_OVERHEAD_BYTES + (chain.keys === 1 ? LINK_BYTES * chain.links.length : 0);
}
