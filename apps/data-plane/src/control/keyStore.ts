import type { Key } from '@weighbridge/contracts';
import { LRUCache } from 'lru-cache';
import type { ResolvedKey } from './resolvedKey.ts';

/** A key as it was at a revision. Never changed: a newer answer makes a new entry. */
export interface KeyEntry {
  readonly key: ResolvedKey;
  /** As it came, to be kept on disk. */
  readonly message: Key;
  readonly revision: bigint;
  /** When its counters were read, monotonic, in milliseconds. */
  readonly readAtMs: number;
  /** After so long they are to be read again. */
  readonly maxAgeMs: number;
  readonly bytes: number;
}

/** What makes keys be forgotten: by id, by a policy in their chain, by their principal, or all of them. */
export interface Invalidation {
  readonly revision: bigint;
  readonly keyIds: ReadonlySet<string>;
  readonly policyIds: ReadonlySet<string>;
  readonly principalIds: ReadonlySet<string>;
  readonly allKeys: boolean;
}

/**
 * The keys that a proxy knows, by the SHA-256 of their tokens, bounded by bytes. An invalidation takes out what it
 * names, and, for as long as look-ups are under way that began before it, also what they bring: an answer that was read
 * before a revocation must not bring the key back.
 */
export interface KeyStore {
  get(tokenId: string): KeyEntry | undefined;
  /** Notes that a look-up begins; what it returns ends it. */
  beginLookUp(): LookUp;
  invalidate(invalidation: Invalidation): void;
  forget(tokenId: string): void;
  entries(): Iterable<[tokenId: string, entry: KeyEntry]>;
  readonly size: number;
}

export interface LookUp {
  /** Takes the answer in; false where something was invalidated since that it may not know: it has to be asked again. */
  store(tokenId: string, entry: KeyEntry): boolean;
  end(): void;
}

export function createKeyStore(maxBytes: number): KeyStore {
  const known = new LRUCache<string, KeyEntry>({
    maxSize: maxBytes,
    sizeCalculation: (entry) => entry.bytes,
  });
  /** Those since the oldest look-up under way began. */
  let recent: Invalidation[] = [];
  let underWay = 0;

  return {
    get: (tokenId) => known.get(tokenId),

    beginLookUp() {
      underWay++;
      let hasEnded = false;
      return {
        store(tokenId, entry) {
          if (
            recent.some(
              (invalidation) => invalidation.revision > entry.revision && touches(invalidation, entry.key),
            )
          ) {
            return false;
          }
          const before = known.peek(tokenId);
          if (!before || before.revision <= entry.revision) known.set(tokenId, entry);
          return true;
        },
        end() {
          if (hasEnded) return;
          hasEnded = true;
          underWay--;
          if (underWay === 0) recent = [];
        },
      };
    },

    invalidate(invalidation) {
      if (underWay > 0) recent.push(invalidation);
      if (invalidation.allKeys) return known.clear();
      for (const [tokenId, entry] of known.entries()) {
        if (entry.revision < invalidation.revision && touches(invalidation, entry.key)) known.delete(tokenId);
      }
    },

    forget: (tokenId) => void known.delete(tokenId),
    entries: () => known.entries(),
    get size() {
      return known.size;
    },
  };
}

function touches({ keyIds, policyIds, principalIds, allKeys }: Invalidation, key: ResolvedKey): boolean {
  return (
    allKeys ||
    keyIds.has(key.id) ||
    principalIds.has(key.principalId) ||
    (policyIds.size > 0 && key.policies.some(({ bucket }) => policyIds.has(bucket.policyId)))
  );
}
