import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Database } from '@weighbridge/database';

/** The secrets under which tokens are hashed. With a pepper outside the database, a stolen dump of it is worthless. */
export interface Peppers {
  readonly currentVersion: number;
  /** The hash of a token under the current pepper, which new keys are stored with. */
  hash(tokenSha256: Uint8Array): Buffer;
  /** The hashes of a token under all known peppers, for looking it up. */
  hashes(tokenSha256: Uint8Array): Buffer[];
}

/** The peppers of the environment. */
export interface PepperSettings {
  /** Undefined: the database stores its own pepper. */
  readonly current: string | undefined;
  /** Previous and next peppers. Tokens are looked up by them too. */
  readonly others: readonly string[];
}

/**
 * Loads the peppers, and registers the current one of the environment if it is new. Without one, the database stores a
 * random pepper. Rejects if keys in use were hashed under a pepper that is missing.
 */
export async function loadPeppers(db: Database, given: PepperSettings, now: Date): Promise<Peppers> {
  const current = given.current === undefined ? randomBytes(32) : Buffer.from(given.current);
  const rows = await db.transaction().execute(async (tx) => {
    const known = await tx.selectFrom('peppers').selectAll().forUpdate().execute();
    const needed = given.current === undefined ? known.length === 0 : !known.some(isOf(current));
    if (!needed) return known;
    const version = Math.max(0, ...known.map((row) => row.version)) + 1;
    const stored = given.current === undefined ? current : null;
    const row = { version, secret: stored, fingerprint: fingerprintOf(current), created_at: now };
    await tx.insertInto('peppers').values(row).execute();
    return [...known, row];
  });

  const fromEnvironment = [
    ...(given.current === undefined ? [] : [current]),
    ...given.others.map(Buffer.from),
  ];
  const secrets = new Map<number, Buffer>();
  for (const row of rows) {
    const found = row.secret ?? fromEnvironment.find((secret) => isOf(secret)(row));
    if (found) secrets.set(row.version, found);
    else await assertPepperUnused(db, row.version, now);
  }
  const own = given.current === undefined ? undefined : rows.find(isOf(current));
  const currentVersion = own?.version ?? Math.max(...secrets.keys());
  // The next pepper is not in the database yet, but another control plane may already use it.
  const known = new Map(
    [...secrets.values(), ...fromEnvironment].map((secret) => [secret.toString('hex'), secret]),
  );
  const newest = secrets.get(currentVersion) ?? current;
  return {
    currentVersion,
    hash: (tokenSha256) => hmac(newest, tokenSha256),
    hashes: (tokenSha256) => [...known.values()].map((secret) => hmac(secret, tokenSha256)),
  };
}

function hmac(secret: Buffer, tokenSha256: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(tokenSha256).digest();
}

function fingerprintOf(secret: Buffer): Buffer {
  return createHash('sha256').update('weighbridge pepper').update(secret).digest();
}

function isOf(secret: Buffer): (row: { readonly fingerprint: Buffer }) => boolean {
  const fingerprint = fingerprintOf(secret);
  return (row) => row.fingerprint.equals(fingerprint);
}

/** Throws if a valid secret was hashed under a pepper. Revoked and expired ones do not need it. */
async function assertPepperUnused(db: Database, version: number, now: Date): Promise<void> {
  const used = await db
    .selectFrom('key_secrets')
    .innerJoin('keys', 'keys.id', 'key_secrets.key_id')
    .select('key_secrets.key_id')
    .where('key_secrets.pepper_version', '=', version)
    .where('keys.revoked_at', 'is', null)
    .where((row) =>
      row.or([row('key_secrets.expires_at', 'is', null), row('key_secrets.expires_at', '>', now)]),
    )
    .limit(1)
    .executeTakeFirst();
  if (!used) return;
  throw new Error(
    'Keys in this database were hashed under another WEIGHBRIDGE_PEPPER and would stop working. Start with that value, or add it to WEIGHBRIDGE_PREVIOUS_PEPPERS.',
  );
}
