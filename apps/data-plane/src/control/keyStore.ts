import type { Key } from '@weighbridge/contracts';
import { LRUCache } from 'lru-cache';
import {
  entryBytes,
  type KeyEntry,
  type KeySource,
  keyEntry,
  packedIds,
  packText,
  unpackedKey,
} from './keyEntry.ts';
import {
  isChainOutdated,
  type PolicyChange,
  PolicyTable,
  settingsRevision,
  withNewerSettings,
} from './policyTable.ts';

/** The keys to drop: by id, by a policy in their chain, by their principal, or all. */
interface Invalidation extends PolicyChange {
  readonly keyIds: ReadonlySet<string>;
  readonly principalIds: ReadonlySet<string>;
  readonly allKeys: boolean;
}

/**
 * The storage under a KeyCache, which does the look-ups: keys by the SHA-256 of their tokens, bounded in bytes, and the
 * policies that they name. A changed policy touches its row only. An invalidation marks the keys that it names, which stay
 * known until they are read again; it also rejects older results of look-ups that began before it: a response read before a
 * revocation must not bring the key back.
 */
export interface KeyStore {
  get(tokenId: string): KeyEntry | undefined;
  /** Whether the key must be read again before it is used. */
  isOutdated(entry: KeyEntry): boolean;
  /** The revision of the current settings of its policies. */
  settingsRevision(entry: KeyEntry): bigint;
  /** The key with these settings. */
  current(entry: KeyEntry): Key;
  /** Increases with each change that may affect a key: checks that are cached from an earlier version are repeated. */
  readonly version: number;
  /** Marks the start of a look-up; call `end` on the result. */
  beginLookUp(): LookUp;
  invalidate(invalidation: Invalidation): void;
  forget(tokenId: string): void;
  /** All tokens' ids, the latest used first. */
  ids(): readonly string[];
  /** As `get`, but does not count as a use. */
  peek(tokenId: string): KeyEntry | undefined;
  readonly size: number;
}

interface LookUp {
  /** Stores the result; undefined if a newer invalidation names the key: look it up again. */
  store(tokenId: string, key: Key, source: KeySource): KeyEntry | undefined;
  end(): void;
}

/** A token's id in the store: its hash, one character per byte. */
export function tokenIdOf(tokenSha256: Uint8Array): string {
  return Buffer.from(tokenSha256.buffer, tokenSha256.byteOffset, tokenSha256.length).toString('latin1');
}

export function tokenSha256Of(tokenId: string): Buffer {
  return Buffer.from(tokenId, 'latin1');
}

export function createKeyStore(maxBytes: number): KeyStore {
  return new BoundedKeyStore(maxBytes);
}

/** The generation of an entry that an invalidation named. */
const DROPPED = -1;

class BoundedKeyStore implements KeyStore {
  readonly #keys: LRUCache<string, KeyEntry>;
  readonly #policies = new PolicyTable();
  /** An entry of an earlier one must be read again. */
  #generation = 0;
  #version = 0;
  /** Invalidations since the oldest running look-up began. */
  #recent: { readonly invalidation: Invalidation; readonly version: number }[] = [];
  /** The version at which each running look-up began, the oldest first. */
  readonly #running = new Map<LookUp, number>();

  constructor(maxBytes: number) {
    this.#keys = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: entryBytes,
      dispose: ({ chain }) => this.#policies.release(chain),
    });
  }

  get version(): number {
    return this.#version;
  }

  get size(): number {
    return this.#keys.size;
  }

  get(tokenId: string): KeyEntry | undefined {
    return this.#keys.get(tokenId);
  }

  peek(tokenId: string): KeyEntry | undefined {
    return this.#keys.peek(tokenId);
  }

  isOutdated({ generation, chain, revision }: KeyEntry): boolean {
    return generation !== this.#generation || isChainOutdated(chain, revision);
  }

  settingsRevision({ chain, revision }: KeyEntry): bigint {
    return settingsRevision(chain, revision);
  }

  current(entry: KeyEntry): Key {
    return withNewerSettings(unpackedKey(entry), entry.chain, entry.revision);
  }

  beginLookUp(): LookUp {
    const lookUp: LookUp = {
      store: (tokenId, key, source) => this.#store(tokenId, key, source),
      end: () => this.#end(lookUp),
    };
    this.#running.set(lookUp, this.#version);
    return lookUp;
  }

  #store(tokenId: string, key: Key, source: KeySource): KeyEntry | undefined {
    const chain = this.#policies.acquire(key);
    // Rows that are new had none of these changes.
    for (const { invalidation } of this.#recent) this.#policies.apply(invalidation);
    const entry = keyEntry(key, chain, source, this.#generation);
    const isDropped = this.#recent.some(
      ({ invalidation }) => invalidation.revision > source.revision && matches(invalidation, entry),
    );
    if (isDropped || this.isOutdated(entry)) {
      this.#policies.release(chain);
      return undefined;
    }
    const before = this.#keys.peek(tokenId);
    const isNewest = !before || this.isOutdated(before) || before.revision <= entry.revision;
    if (isNewest) this.#keys.set(tokenId, entry);
    // An entry larger than the store is not stored.
    if (this.#keys.peek(tokenId) !== entry) this.#policies.release(chain);
    return entry;
  }

  #end(lookUp: LookUp): void {
    this.#running.delete(lookUp);
    const [oldest] = this.#running.values();
    this.#recent = oldest === undefined ? [] : this.#recent.filter(({ version }) => version > oldest);
  }

  invalidate(ids: Invalidation): void {
    const invalidation = packIds(ids);
    const { keyIds, principalIds, policyIds, allKeys } = invalidation;
    if (!allKeys && keyIds.size + principalIds.size + policyIds.size === 0) return;
    this.#version++;
    if (this.#running.size > 0) this.#recent.push({ invalidation, version: this.#version });
    this.#policies.apply(invalidation);
    if (allKeys) this.#generation++;
    else if (keyIds.size + principalIds.size > 0) this.#drop(invalidation);
  }

  #drop(invalidation: Invalidation): void {
    for (const entry of this.#keys.values()) {
      if (entry.revision < invalidation.revision && matches(invalidation, entry)) entry.generation = DROPPED;
    }
  }

  forget(tokenId: string): void {
    this.#keys.delete(tokenId);
  }

  ids(): readonly string[] {
    return [...this.#keys.keys()];
  }
}

/** Converts the ids to the form in which keys have them packed. */
function packIds({ keyIds, principalIds, ...rest }: Invalidation): Invalidation {
  const packed = (ids: ReadonlySet<string>) => new Set([...ids].map(packText));
  return { ...rest, keyIds: packed(keyIds), principalIds: packed(principalIds) };
}

/** Whether it names the key other than by a policy. */
function matches({ keyIds, principalIds, allKeys }: Invalidation, entry: KeyEntry): boolean {
  if (allKeys) return true;
  if (keyIds.size === 0 && principalIds.size === 0) return false;
  const { id, principalId } = packedIds(entry);
  return keyIds.has(id) || principalIds.has(principalId);
}
