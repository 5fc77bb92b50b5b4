import type { Database } from '@weighbridge/database';
import { mintToken, tokenSha256 } from '@weighbridge/domain';
import { findKeyBySecret, type HashedSecret, type KeyBySecret, rehashSecret } from './keys.repository.ts';
import type { Peppers } from './peppers.ts';

/** A new token, and the hash of it that is stored. */
export function newSecret(peppers: Peppers): { readonly token: string; readonly secret: HashedSecret } {
  const token = mintToken();
  return { token, secret: hashedSecret(peppers, token) };
}

export function hashedSecret(peppers: Peppers, token: string): HashedSecret {
  return { hash: peppers.hash(tokenSha256(token)), pepperVersion: peppers.currentVersion };
}

/** The key that a token belongs to. Stores the token's hash under the current pepper if it has an older one. */
export async function findKeyByTokenSha256(
  deps: { readonly db: Database; readonly now: () => Date; readonly peppers: Peppers },
  sha256: Uint8Array,
): Promise<KeyBySecret | undefined> {
  const { db, peppers } = deps;
  const key = await findKeyBySecret(db, peppers.hashes(sha256), deps.now());
  // A newer pepper version comes from a control plane that already has the next settings.
  if (key && key.pepper_version < peppers.currentVersion) {
    const pepperVersion = peppers.currentVersion;
    await rehashSecret(db, key.secret_hash, { hash: peppers.hash(sha256), pepperVersion });
  }
  return key;
}
