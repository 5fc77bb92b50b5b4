import { LRUCache } from 'lru-cache';
import { entryBytes, type KeyEntry, packedIds, packText } from './keyEntry.ts';

/** The keys to drop: by id, by a policy in their chain, by their principal, or all. */
interface Invalidation {
  readonly revision: bigint;
  readonly keyIds: ReadonlySet<string>;
  readonly policyIds: ReadonlySet<string>;
  readonly principalIds: ReadonlySet<string>;
  readonly allKeys: boolean;
}

/**
 * The storage under a KeyCache, which does the look-ups: keys by the SHA-256 of their tokens, bounded in bytes. An
 * invalidation drops the keys that it names, and also rejects older results of look-ups that began before it: a response
 * read before a revocation must not bring the key back.
 */
export interface KeyStore {
  get(tokenId: string): KeyEntry | undefined;
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
  /** Stores the result; false if a newer invalidation names the key: look it up again. */
  store(tokenId: string, entry: KeyEntry): boolean;
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
  const keys = new LRUCache<string, KeyEntry>({
    maxSize: maxBytes,
    sizeCalculation: entryBytes,
  });
  /** Invalidations since the oldest running look-up began. */
  let recent: Invalidation[] = [];
  let running = 0;

  const isOutdated = (entry: KeyEntry): boolean =>
    recent.some((invalidation) => invalidation.revision > entry.revision && matches(invalidation, entry));

  return {
    get: (tokenId) => keys.get(tokenId),

    beginLookUp() {
      running++;
      let hasEnded = false;
      return {
        store(tokenId, entry) {
          if (isOutdated(entry)) return false;
          const before = keys.peek(tokenId);
          if (!before || before.revision <= entry.revision) keys.set(tokenId, entry);
          return true;
        },
        end() {
          if (hasEnded) return;
          hasEnded = true;
          running--;
          if (running === 0) recent = [];
        },
      };
    },

    invalidate(ids) {
      const invalidation = packIds(ids);
      if (running > 0) recent.push(invalidation);
      if (invalidation.allKeys) return keys.clear();
      for (const [tokenId, entry] of keys.entries()) {
        if (entry.revision < invalidation.revision && matches(invalidation, entry)) keys.delete(tokenId);
      }
    },

    forget: (tokenId) => void keys.delete(tokenId),
    ids: () => [...keys.keys()],
    peek: (tokenId) => keys.peek(tokenId),
    get size() {
      return keys.size;
    },
  };
}

/** Converts the ids to the form in which keys have them packed. */
function packIds({ keyIds, principalIds, ...rest }: Invalidation): Invalidation {
  const packed = (ids: ReadonlySet<string>) => new Set([...ids].map(packText));
  return { ...rest, keyIds: packed(keyIds), principalIds: packed(principalIds) };
}

function matches({ keyIds, policyIds, principalIds, allKeys }: Invalidation, entry: KeyEntry): boolean {
  if (allKeys || (policyIds.size > 0 && entry.policyIds.some((id) => policyIds.has(id)))) return true;
  if (keyIds.size === 0 && principalIds.size === 0) return false;
  const { id, principalId } = packedIds(entry);
  return keyIds.has(id) || principalIds.has(principalId);
}
