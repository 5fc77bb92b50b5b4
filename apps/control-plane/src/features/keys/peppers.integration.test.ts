import { mintToken, tokenSha256 } from '@weighbridge/domain';
import { createTestDatabase, type TestDatabase } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { issueFirstKey } from './keyIssuing.service.ts';
import { findKeyByTokenSha256 } from './keySecrets.service.ts';
import { loadPeppers, type Peppers } from './peppers.ts';

const now = () => new Date('2026-11-20T10:00:00Z');
const [FIRST, SECOND] = [
  'the first pepper of at least 32 characters',
  'the second pepper, of more than 32 characters',
];

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
});
afterEach(() => database.drop());

const load = (current?: string, ...others: string[]) => loadPeppers(database.db, { current, others }, now());
const find = (peppers: Peppers, token: string) =>
  findKeyByTokenSha256({ db: database.db, now, peppers }, tokenSha256(token));
const secrets = () => database.db.selectFrom('key_secrets').selectAll().execute();

async function issued(peppers: Peppers): Promise<string> {
  const token = mintToken();
  await database.db
    .transaction()
    .execute((tx) => issueFirstKey(tx, { db: database.db, now, peppers }, token, []));
  return token;
}

describe('a token', () => {
  it('is stored as a hash that cannot be computed from the database alone', async () => {
    const token = await issued(await load(FIRST));
    const [kept] = await secrets();
    expect(kept?.secret_hash.equals(Buffer.from(tokenSha256(token)))).toBe(false);
    expect(
      (await database.db.selectFrom('peppers').select('secret').execute()).map(({ secret }) => secret),
    ).toEqual([null]);
    // An attacker who inserts the hash of their own token would have to guess the pepper.
    const planted = mintToken();
    await database.db
      .updateTable('key_secrets')
      .set({ secret_hash: Buffer.from(tokenSha256(planted)) })
      .execute();
    expect(await find(await load(FIRST), planted)).toBeUndefined();
  });

  it('keeps working when the pepper is replaced, and is hashed again on its next use', async () => {
    const token = await issued(await load(FIRST));
    const peppers = await load(SECOND, FIRST);
    expect(await find(peppers, token)).toBeDefined();
    expect(await secrets()).toMatchObject([{ pepper_version: peppers.currentVersion }]);
    // From then on, nothing needs the first one.
    expect(await find(await load(SECOND), token)).toBeDefined();
  });

  it('works at control planes that are not restarted yet if they know the next pepper', async () => {
    const before = await load(FIRST, SECOND);
    const token = await issued(before);
    expect(await find(await load(SECOND, FIRST), token)).toBeDefined();
    expect(await find(before, token)).toBeDefined();
    expect(await find(before, token)).toBeDefined();
    expect(await secrets()).toMatchObject([{ pepper_version: 2 }]);
  });

  it('of a database with its own pepper keeps working after the environment sets one', async () => {
    const token = await issued(await load());
    const peppers = await load(FIRST);
    expect(await find(peppers, token)).toBeDefined();
    expect(await secrets()).toMatchObject([{ pepper_version: peppers.currentVersion }]);
  });
});

describe('a start', () => {
  it('fails without a pepper that valid keys depend on, and names the setting', async () => {
    await issued(await load(FIRST));
    for (const current of [undefined, SECOND]) {
      await expect(load(current)).rejects.toThrow('WEIGHBRIDGE_PREVIOUS_PEPPERS');
    }
  });

  it('needs no pepper of a revoked key', async () => {
    await issued(await load(FIRST));
    await database.db.updateTable('keys').set({ disabled: true, revoked_at: now() }).execute();
    await expect(load(SECOND)).resolves.toBeDefined();
  });

  it('uses a previous pepper again if it becomes the current one', async () => {
    const token = await issued(await load(FIRST));
    await find(await load(SECOND, FIRST), token);
    const back = await load(FIRST, SECOND);
    expect(back.currentVersion).toBe(1);
    expect(await find(back, token)).toBeDefined();
  });
});
