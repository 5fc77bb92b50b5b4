import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { TestDatabase } from '@weighbridge/testing';
import { CompiledQuery } from 'kysely';

const DOCUMENT = new URL('../../../docs/operations.md', import.meta.url);
const PASSWORD = 'the password of the apps';

/** A role that may not change the schema, as docs/operations.md makes it, and its address of the database. */
export async function createAppRole({ db, url }: Pick<TestDatabase, 'db' | 'url'>): Promise<{
  readonly url: string;
  drop(): Promise<void>;
}> {
  // Roles are those of the whole server, which other tests use too.
  const name = `weighbridge_app_${randomBytes(6).toString('hex')}`;
  const run = (statement: string) => db.executeQuery(CompiledQuery.raw(statement));
  for (const statement of await documented()) {
    await run(statement.replaceAll('weighbridge_app', name).replace('…', PASSWORD));
  }
  const address = new URL(url);
  address.username = name;
  address.password = PASSWORD;
  return {
    url: address.href,
    async drop() {
      await run(`DROP OWNED BY ${name}`);
      await run(`DROP ROLE ${name}`);
    },
  };
}

async function documented(): Promise<string[]> {
  const [, block = ''] =
    /## Database roles[\s\S]*?```sql\n([\s\S]*?)```/.exec(await readFile(DOCUMENT, 'utf8')) ?? [];
  const statements = block.split(';\n').filter((one) => one.trim() !== '');
  if (statements.length < 5) throw new Error('docs/operations.md makes no role for the apps');
  return statements;
}
