import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Database } from '@weighbridge/database';

/** The secrets under which tokens are hashed. A pepper outside the database makes a stolen dump of it worthless. */
export interface Peppers {
  readonly currentVersion: number;
  /** The hash of a token under the newest pepper: what a new key is stored with. */
  hash(tokenSha256: Uint8Array): Buffer;
  /** Its hashes under every pepper known: what a token is looked up by. */
  hashes(tokenSha256: Uint8Array): Buffer[];
}

/**
 * Loads the peppers, adding the one of the environment where it is new; `previous` are those that it replaced. Without
 * one, the database keeps one of its own. Rejects where keys were hashed under a pepper that is nowhere to be found.
 */
export async function loadPeppers(
  db: Database,
  fromEnvironment: string | undefined,
  now: Date,
  previous: readonly string[] = [],
): Promise<Peppers> {
  const secret = fromEnvironment === undefined ? randomBytes(32) : Buffer.from(fromEnvironment);
  const fingerprint = fingerprintOf(secret);
  const given = [secret, ...previous.map((text) => Buffer.from(text))];
  const rows = await db.transaction().execute(async (tx) => {
    const known = await tx.selectFrom('peppers').selectAll().forUpdate().execute();
    const needed =
      fromEnvironment === undefined
        ? known.length === 0
        : !known.some((row) => row.fingerprint.equals(fingerprint));
    if (!needed) return known;
    const version = Math.max(0, ...known.map((row) => row.version)) + 1;
    const kept = fromEnvironment === undefined ? secret : null;
    const row = { version, secret: kept, fingerprint, created_at: now };
    await tx.insertInto('peppers').values(row).execute();
    return [...known, row];
  });

  const secrets = new Map<number, Buffer>();
  for (const row of rows) {
    const found = row.secret ?? given.find((one) => fingerprintOf(one).equals(row.fingerprint));
    if (found) secrets.set(row.version, found);
    else await refuseLostPepper(db, row.version);
  }
  const currentVersion = Math.max(...secrets.keys());
  const hmac = (version: number, tokenSha256: Uint8Array): Buffer =>
    createHmac('sha256', secrets.get(version) ?? Buffer.alloc(0))
      .update(tokenSha256)
      .digest();
  return {
    currentVersion,
    hash: (tokenSha256) => hmac(currentVersion, tokenSha256),
    hashes: (tokenSha256) => [...secrets.keys()].map((version) => hmac(version, tokenSha256)),
  };
}

function fingerprintOf(secret: Buffer): Buffer {
  return createHash('sha256').update('weighbridge pepper').update(secret).digest();
}

async function refuseLostPepper(db: Database, version: number): Promise<void> {
  const used = await db
    .selectFrom('key_secrets')
    .select('key_id')
    .where('pepper_version', '=', version)
    .limit(1)
    .executeTakeFirst();
  if (!used) return;
  throw new Error(
    'Keys in this database were hashed under another WEIGHBRIDGE_PEPPER, so they would not work. Start with that value, in WEIGHBRIDGE_PREVIOUS_PEPPERS where it is to be replaced.',
  );
}
