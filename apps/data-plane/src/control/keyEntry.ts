import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Key, KeySchema } from '@weighbridge/contracts';
import type { KeyLinks, KeyRows } from './keyRows.ts';

/**
 * A key at a revision: a newer response makes a new entry. A proxy caches hundreds of thousands, so an entry is small: it
 * shares what most keys have in common and leaves the rest encoded.
 */
export interface KeyEntry extends KeyLinks {
  /** The key in protobuf, one Latin-1 character per byte: the smallest form in V8. */
  readonly packed: string;
  readonly revision: bigint;
  /** When its counters were read, monotonic, in whole milliseconds. */
  readonly readAtMs: number;
  /** The age at which they are read again, unless the control stream announces changes of the key. */
  readonly maxAgeMs: number;
  /** The control stream that announces changes of the key: that during which it was read; 0: none does. */
  readonly stream: number;
  /** The store's when it was stored; if the store has others now, the key is read again. */
  readonly rows: KeyRows;
}

/** Where and when a key was read. */
export type KeySource = Pick<KeyEntry, 'revision' | 'readAtMs' | 'maxAgeMs'> &
  Partial<Pick<KeyEntry, 'stream'>>;

/** The entry object, and its places in the store and in the indexes, beside the key's bytes. */
const ENTRY_OVERHEAD_BYTES = 500;
/** A row of a policy, with its places in the table and in a chain. */
const LINK_BYTES = 300;

let latestRevision = 0n;

export function keyEntry(key: Key, links: KeyLinks, rows: KeyRows, source: KeySource): KeyEntry {
  // A bigint is a heap object: entries of the same revision share it.
  if (source.revision !== latestRevision) latestRevision = source.revision;
  return {
    packed: Buffer.from(toBinary(KeySchema, key)).toString('latin1'),
    own: links.own,
    principal: links.principal,
    chain: links.chain,
    revision: latestRevision,
    readAtMs: Math.floor(source.readAtMs),
    maxAgeMs: source.maxAgeMs,
    stream: source.stream ?? 0,
    rows,
  };
}

export function keyBytes({ packed }: KeyEntry): Buffer {
  return Buffer.from(packed, 'latin1');
}

/** The key as the control plane sent it. */
export function unpackedKey(entry: KeyEntry): Key {
  return fromBinary(KeySchema, keyBytes(entry));
}

/** The entry's size in the store, with its rows. A shared chain is counted with its first key only. */
export function entryBytes({ packed, own, principal, chain }: KeyEntry): number {
  const idBytes = own.id.length + principal.id.length;
  const chainBytes = chain.keys === 1 ? LINK_BYTES * chain.links.length : 0;
  return packed.length + idBytes + ENTRY_OVERHEAD_BYTES + chainBytes;
}
