import { LRUCache } from 'lru-cache';
import { entryBytes, type KeyEntry, packedIds, packText } from './keyEntry.ts';

/** What makes keys be forgotten: by id, by a policy in their chain, by their principal, or all of them. */
interface Invalidation {
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

interface LookUp {
  /** Takes the answer in; false where something was invalidated since that it may not know: it has to be asked again. */
  store(tokenId: string, entry: KeyEntry): boolean;
  end(): void;
}

/** The name of a token in the store: its hash, a character for each byte. */
export function tokenIdOf(tokenSha256: Uint8Array): string {
  return Buffer.from(tokenSha256.buffer, tokenSha256.byteOffset, tokenSha256.length).toString('latin1');
}

export function tokenSha256Of(tokenId: string): Buffer {
  return Buffer.from(tokenId, 'latin1');
}

export function createKeyStore(maxBytes: number): KeyStore {
  const known = new LRUCache<string, KeyEntry>({
    maxSize: maxBytes,
    sizeCalculation: entryBytes,
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
              (invalidation) => invalidation.revision > entry.revision && touches(invalidation, entry),
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

    invalidate(told) {
      const invalidation = packedInvalidation(told);
      if (underWay > 0) recent.push(invalidation);
      if (invalidation.allKeys) return known.clear();
      for (const [tokenId, entry] of known.entries()) {
        if (entry.revision < invalidation.revision && touches(invalidation, entry)) known.delete(tokenId);
      }
    },

    forget: (tokenId) => void known.delete(tokenId),
    entries: () => known.entries(),
    get size() {
      return known.size;
    },
  };
}

/** The ids as keys have them packed. */
function packedInvalidation({ keyIds, principalIds, ...rest }: Invalidation): Invalidation {
  const packed = (ids: ReadonlySet<string>) => new Set([...ids].map(packText));
  return { ...rest, keyIds: packed(keyIds), principalIds: packed(principalIds) };
}

function touches({ keyIds, policyIds, principalIds, allKeys }: Invalidation, entry: KeyEntry): boolean {
  if (allKeys || (policyIds.size > 0 && entry.policyIds.some((id) => policyIds.has(id)))) return true;
  if (keyIds.size === 0 && principalIds.size === 0) return false;
  const { id, principalId } = packedIds(entry);
  return keyIds.has(id) || principalIds.has(principalId);
}
