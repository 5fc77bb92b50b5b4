import type { Key } from '@weighbridge/contracts';
import { LRUCache } from 'lru-cache';
import { entryBytes, type KeyEntry, type KeySource, keyEntry, unpackedKey } from './keyEntry.ts';
import { areLinksOutdated, type KeyChange, KeyRows } from './keyRows.ts';
import { type SettingsBudget, settingsRevision, withNewerSettings } from './policyTable.ts';

/**
 * The storage under a KeyCache, which does the look-ups: keys by the SHA-256 of their tokens, bounded in bytes, and the rows of
 * what changes may name of them. A change touches rows only. The keys that it names stay known until they are read again; it also
 * rejects older results of look-ups that began before it: a response read before a revocation must not bring the key back.
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
  invalidate(change: KeyChange): void;
  /** Another history begins: all keys must be read again, and no look-up that runs counts, whatever its revision. */
  reset(): void;
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

/** Beyond this, changed settings of policies are forgotten. */
const MAX_SETTINGS_BYTES = 16 * 1024 * 1024;

interface RunningLookUp extends LookUp {
  /** The version at which it began. */
  readonly beganAt: number;
  isVoid: boolean;
}

class BoundedKeyStore implements KeyStore {
  readonly #keys: LRUCache<string, KeyEntry>;
  readonly #settings: SettingsBudget = { freeBytes: MAX_SETTINGS_BYTES };
  /** An entry with earlier ones must be read again: a change of all keys replaces them, and visits none. */
  #rows = new KeyRows(this.#settings);
  #version = 0;
  /** Changes since the oldest running look-up began. */
  #recent: { readonly change: KeyChange; readonly version: number }[] = [];
  /** The oldest first. */
  readonly #running = new Set<RunningLookUp>();

  constructor(maxBytes: number) {
    this.#keys = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: entryBytes,
      dispose: (entry) => entry.rows.release(entry),
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

  isOutdated(entry: KeyEntry): boolean {
    return entry.rows !== this.#rows || areLinksOutdated(entry, entry.revision);
  }

  settingsRevision({ chain, revision }: KeyEntry): bigint {
    return settingsRevision(chain, revision);
  }

  current(entry: KeyEntry): Key {
    return withNewerSettings(unpackedKey(entry), entry.chain, entry.revision);
  }

  beginLookUp(): LookUp {
    const lookUp: RunningLookUp = {
      beganAt: this.#version,
      isVoid: false,
      store: (tokenId, key, source) => (lookUp.isVoid ? undefined : this.#store(tokenId, key, source)),
      end: () => this.#end(lookUp),
    };
    this.#running.add(lookUp);
    return lookUp;
  }

  #store(tokenId: string, key: Key, source: KeySource): KeyEntry | undefined {
    const rows = this.#rows;
    const links = rows.acquire(key);
    let isDropped = false;
    for (const { change } of this.#recent) {
      rows.applyTo(links, change);
      isDropped ||= change.allKeys && change.revision > source.revision;
    }
    const entry = keyEntry(key, links, rows, source);
    if (isDropped || this.isOutdated(entry)) {
      rows.release(links);
      return undefined;
    }
    const before = this.#keys.peek(tokenId);
    const isNewest = !before || this.isOutdated(before) || before.revision <= entry.revision;
    if (isNewest) this.#keys.set(tokenId, entry);
    // An entry larger than the store is not stored.
    if (this.#keys.peek(tokenId) !== entry) rows.release(links);
    return entry;
  }

  #end(lookUp: RunningLookUp): void {
    this.#running.delete(lookUp);
    const [oldest] = this.#running;
    this.#recent = oldest ? this.#recent.filter(({ version }) => version > oldest.beganAt) : [];
  }

  invalidate(change: KeyChange): void {
    const { keyIds, principalIds, policyIds, allKeys } = change;
    if (!allKeys && keyIds.size + principalIds.size + policyIds.size === 0) return;
    this.#version++;
    if (this.#running.size > 0) this.#recent.push({ change, version: this.#version });
    if (allKeys) this.#rows = new KeyRows(this.#settings);
    else this.#rows.apply(change);
  }

  reset(): void {
    this.#version++;
    this.#rows = new KeyRows(this.#settings);
    for (const lookUp of this.#running) lookUp.isVoid = true;
    // Their revisions mean something else now.
    this.#recent = [];
  }

  forget(tokenId: string): void {
    this.#keys.delete(tokenId);
  }

  ids(): readonly string[] {
    return [...this.#keys.keys()];
  }
}
