import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { WireType } from '@bufbuild/protobuf/wire';
import { type Key, KeySchema } from '@weighbridge/contracts';
import { LRUCache } from 'lru-cache';

/**
 * A key as it was at a revision. Never changed: a newer answer makes a new entry. A proxy knows hundreds of thousands, so
 * an entry is small: what most of them have alike is shared, and the rest stays packed.
 */
export interface KeyEntry {
  /** The key as protobuf, a character for each byte: the smallest that there is. */
  readonly packed: string;
  /** Of the policies in its chain. */
  readonly policyIds: readonly string[];
  readonly revision: bigint;
  /** When its counters were read, monotonic, in whole milliseconds. */
  readonly readAtMs: number;
  /** After so long they are to be read again. */
  readonly maxAgeMs: number;
}

/** What an entry takes beside its key's bytes: itself, and its places in the store. */
const ENTRY_OVERHEAD_BYTES = 300;
const MOST_CHAINS = 10_000;

/** The ids of chains, by all of them: the keys of a policy share one list. */
const chains = new LRUCache<string, readonly string[]>({ max: MOST_CHAINS });
let latestRevision = 0n;

/** An entry of the store, from what the control plane said. */
export function keyEntry(key: Key, told: Pick<KeyEntry, 'revision' | 'readAtMs' | 'maxAgeMs'>): KeyEntry {
  const policyIds = key.policies.flatMap(({ bucket }) => bucket?.policyId ?? []);
  const chain = policyIds.join('/');
  const shared = chains.get(chain) ?? policyIds;
  chains.set(chain, shared);
  // Answers between two changes share the number, which is an object.
  if (told.revision !== latestRevision) latestRevision = told.revision;
  return {
    packed: Buffer.from(toBinary(KeySchema, key)).toString('latin1'),
    policyIds: shared,
    revision: latestRevision,
    readAtMs: Math.floor(told.readAtMs),
    maxAgeMs: told.maxAgeMs,
  };
}

export function keyBytes({ packed }: KeyEntry): Buffer {
  return Buffer.from(packed, 'latin1');
}

/** The key as it came. */
export function keyMessage(entry: KeyEntry): Key {
  return fromBinary(KeySchema, keyBytes(entry));
}

/** A text as it stands in a packed key. */
export function packText(text: string): string {
  return Buffer.from(text).toString('latin1');
}

const { id: ID, principalId: PRINCIPAL_ID } = KeySchema.field;

/** Whose it is, packed, without unpacking the rest: an invalidation looks at every key. */
export function packedIds({ packed }: KeyEntry): { readonly id: string; readonly principalId: string } {
  const id = textAt(packed, 0, ID.number);
  const principalId = textAt(packed, id.end, PRINCIPAL_ID.number);
  return { id: id.text, principalId: principalId.text };
}

/** The text of a field, if that is what stands there: one that is empty is left out. */
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

/** What the store takes it to weigh. */
export function entryBytes({ packed }: KeyEntry): number {
  return packed.length + ENTRY_OVERHEAD_BYTES;
}
