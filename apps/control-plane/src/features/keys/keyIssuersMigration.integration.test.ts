import { readdir, readFile } from 'node:fs/promises';
import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';

const MIGRATIONS = new URL('../../../../../packages/database/migrations/', import.meta.url);
const OURS = '0023-key-issuers.sql';
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {}, maxConnections: 1 });
  await sql`DROP SCHEMA public CASCADE`.execute(db);
  await sql`CREATE SCHEMA public`.execute(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const run = async (name: string) => {
  await sql.raw(await readFile(new URL(name, MIGRATIONS), 'utf8')).execute(db);
};

it('the migration takes the issuers of earlier keys from the audit log, and says of which it knows none', async () => {
  for (const name of (await readdir(MIGRATIONS)).sort()) if (name < OURS) await run(name);
  await sql`INSERT INTO principals (id, created_at) VALUES ('ada', now())`.execute(db);
  await sql`
    INSERT INTO keys (id, name, kind, principal_id, scopes, counter_key_id, key_hint, created_at, updated_at)
    SELECT id, id, 'service', 'ada', '{}', id, '', now(), now()
    FROM unnest('{key_first,key_of_key,key_of_token,key_unaudited,key_of_gone}'::text[]) AS id`.execute(db);
  await sql`
    INSERT INTO audit_log (at, actor_principal_id, actor_key_id, actor_oidc_issuer, actor_oidc_subject, action, resource_id)
    VALUES (now(), 'operator', NULL, NULL, NULL, 'key.created', 'key_first'),
           (now(), 'ada', 'key_first', NULL, NULL, 'key.created', 'key_of_key'),
           (now(), 'ada', 'key_unaudited', NULL, NULL, 'key.updated', 'key_of_key'),
           (now(), 'ada', NULL, 'https://id.test', 'ada', 'key.created', 'key_of_token'),
           (now(), 'ada', 'key_gone', NULL, NULL, 'key.created', 'key_of_gone')`.execute(db);
  await run(OURS);
  const keys = await db
    .selectFrom('keys')
    .select(['id', 'issued_by_key_id', 'is_issuer_known'])
    .orderBy('id')
    .execute();
  expect(keys.map((key) => [key.id, key.issued_by_key_id, key.is_issuer_known])).toEqual([
    ['key_first', null, true],
    ['key_of_gone', null, false],
    ['key_of_key', 'key_first', true],
    ['key_of_token', null, true],
    ['key_unaudited', null, false],
  ]);
});
