import type { Database } from '@weighbridge/database';
import { mintToken, tokenSha256 } from '@weighbridge/domain';
import { findKeysBySecret, type HashedSecret, type KeyBySecret, rehashSecret } from './keys.repository.ts';
import type { Peppers } from './peppers.ts';

/** A new token, and the hash of it that is stored. */
export function newSecret(peppers: Peppers): { readonly token: string; readonly secret: HashedSecret } {
  const token = mintToken();
  return { token, secret: hashedSecret(peppers, token) };
}

export function hashedSecret(peppers: Peppers, token: string): HashedSecret {
  return { hash: peppers.hash(tokenSha256(token)), pepperVersion: peppers.currentVersion };
}

interface SecretDeps {
  readonly db: Database;
  readonly now: () => Date;
  readonly peppers: Peppers;
}

/** The key that a token belongs to. Stores the token's hash under the current pepper if it has an older one. */
export async function findKeyByTokenSha256(
  deps: SecretDeps,
  sha256: Uint8Array,
): Promise<KeyBySecret | undefined> {
  const { keys } = await findKeysByTokenSha256(deps, [sha256]);
  return keys[0];
}

/** As `findKeyByTokenSha256`, of many tokens in one statement: in their order, as of one revision. */
export async function findKeysByTokenSha256(
  { db, now, peppers }: SecretDeps,
  sha256s: readonly Uint8Array[],
): Promise<{ readonly revision: bigint; readonly keys: (KeyBySecret | undefined)[] }> {
  const hashes = sha256s.map((sha256) => peppers.hashes(sha256));
  const { revision, keys } = await findKeysBySecret(db, hashes.flat(), now());
  const byHash = new Map(keys.map((key) => [key.secret_hash.toString('hex'), key]));
  const found = hashes.map((ofToken) =>
    ofToken.map((hash) => byHash.get(hash.toString('hex'))).find((key) => key !== undefined),
  );
  for (const [at, key] of found.entries()) {
    const sha256 = sha256s[at];
    // A newer pepper version comes from a control plane that already has the next settings.
    if (!key || !sha256 || key.pepper_version >= peppers.currentVersion) continue;
    const after = { hash: peppers.hash(sha256), pepperVersion: peppers.currentVersion };
    await rehashSecret(db, key.secret_hash, after);
  }
  return { revision, keys: found };
}
