import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Database } from '@weighbridge/database';

/** The secrets under which tokens are hashed. A pepper outside the database makes a stolen dump of it worthless. */
export interface Peppers {
  readonly currentVersion: number;
  /** The hash of a token under the current pepper: what a new key is stored with. */
  hash(tokenSha256: Uint8Array): Buffer;
  /** Its hashes under every pepper known: what a token is looked up by. */
  hashes(tokenSha256: Uint8Array): Buffer[];
}

/** The peppers of the environment. */
export interface GivenPeppers {
  /** Undefined: the database keeps one of its own. */
  readonly current: string | undefined;
  /** What it replaced, or what is to replace it: tokens are looked up by them too. */
  readonly others: readonly string[];
}

/**
 * Loads the peppers, adding the current one of the environment where it is new. Without one, the database keeps one of
 * its own. Rejects where keys in use were hashed under a pepper that is nowhere to be found.
 */
export async function loadPeppers(db: Database, given: GivenPeppers, now: Date): Promise<Peppers> {
  const current = given.current === undefined ? randomBytes(32) : Buffer.from(given.current);
  const rows = await db.transaction().execute(async (tx) => {
    const known = await tx.selectFrom('peppers').selectAll().forUpdate().execute();
    const needed = given.current === undefined ? known.length === 0 : !known.some(isOf(current));
    if (!needed) return known;
    const version = Math.max(0, ...known.map((row) => row.version)) + 1;
    const kept = given.current === undefined ? current : null;
    const row = { version, secret: kept, fingerprint: fingerprintOf(current), created_at: now };
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
    else await refuseLostPepper(db, row.version, now);
  }
  const own = given.current === undefined ? undefined : rows.find(isOf(current));
  const currentVersion = own?.version ?? Math.max(...secrets.keys());
  // One that is to come is none of the database's yet, and may be any moment: another control plane has it already.
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

/** A secret that nobody can use any more needs no pepper. */
async function refuseLostPepper(db: Database, version: number, now: Date): Promise<void> {
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
    'Keys in this database were hashed under another WEIGHBRIDGE_PEPPER, so none of them would work. Start with that value, or name it in WEIGHBRIDGE_PREVIOUS_PEPPERS.',
  );
}
