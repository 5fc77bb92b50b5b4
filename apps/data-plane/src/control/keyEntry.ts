import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import { type Key, KeySchema } from '@weighbridge/contracts';
import { LRUCache } from 'lru-cache';

/**
 * A key at a revision, immutable: a newer response makes a new entry. A proxy caches hundreds of thousands, so an entry is
 * small: it shares what most keys have in common and leaves the rest encoded.
 */
export interface KeyEntry {
  /** The key in protobuf, one Latin-1 character per byte: the smallest form in V8. */
  readonly packed: string;
  /** The ids of the policies in its chain, and of those that replace one of them when its budget is used up. */
  readonly policyIds: readonly string[];
  readonly revision: bigint;
  /** When its counters were read, monotonic, in whole milliseconds. */
  readonly readAtMs: number;
  /** The age at which they must be read again. */
  readonly maxAgeMs: number;
}

/** The entry object and its places in the store, beside the key's bytes. */
const ENTRY_OVERHEAD_BYTES = 300;
const MAX_CHAINS = 10_000;

/** Lists of policy ids by their JSON: keys with the same chain share one list. */
const chains = new LRUCache<string, readonly string[]>({ max: MAX_CHAINS });
let latestRevision = 0n;

export function keyEntry(key: Key, source: Pick<KeyEntry, 'revision' | 'readAtMs' | 'maxAgeMs'>): KeyEntry {
  const counters = [key.policies, ...key.replacements.map(({ policies }) => policies)].flat();
  const policyIds = [...new Set(counters.flatMap(({ bucket }) => bucket?.policyId ?? []))];
  const chain = JSON.stringify(policyIds);
  const shared = chains.get(chain) ?? policyIds;
  chains.set(chain, shared);
  // A bigint is a heap object: entries of the same revision share it.
  if (source.revision !== latestRevision) latestRevision = source.revision;
  return {
    packed: Buffer.from(toBinary(KeySchema, key)).toString('latin1'),
    policyIds: shared,
    revision: latestRevision,
    readAtMs: Math.floor(source.readAtMs),
    maxAgeMs: source.maxAgeMs,
  };
}

export function keyBytes({ packed }: KeyEntry): Buffer {
  return Buffer.from(packed, 'latin1');
}

/** The key as the control plane sent it. */
export function keyMessage(entry: KeyEntry): Key {
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

/** The entry's size in the store. */
export function entryBytes({ packed }: KeyEntry): number {
  return packed.length + ENTRY_OVERHEAD_BYTES;
}
