import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { REPOSITORY, read } from './repository.ts';
import { faultsOf, unusedExceptions } from './sourceRules.ts';

/** Packages that are never part of a service. */
const NOT_SHIPPED = /^packages\/(testing|bench|mock-vendor|deploy-checks)\//;

async function shippedSource(): Promise<ReadonlyMap<string, string>> {
  const files = (
    await Promise.all(
      ['apps', 'packages'].map(async (top) =>
        (await readdir(join(REPOSITORY, top))).map((name) => `${top}/${name}/src`),
      ),
    )
  ).flat();
  const paths = await Promise.all(
    files.map(async (folder) => {
      const entries = await readdir(join(REPOSITORY, folder), { recursive: true }).catch(() => []);
      return entries.map((entry) => `${folder}/${entry}`);
    }),
  );
  const shipped = paths
    .flat()
    .filter((path) => /\.ts$/.test(path) && !/\.test\.ts$|\/gen\//.test(path) && !NOT_SHIPPED.test(path));
  return new Map(await Promise.all(shipped.map(async (path) => [path, await read(path)] as const)));
}

describe('the shipped source', () => {
  it('passes values to SQL as parameters, and compares secrets in constant time', async () => {
    const source = await shippedSource();
    expect(source.size).toBeGreaterThan(300);
    expect([...source].flatMap(([file, text]) => faultsOf(file, text))).toEqual([]);
    expect(unusedExceptions(source)).toEqual([]);
  });
});

/* biome-ignore-start lint/suspicious/noTemplateCurlyInString: these are texts of source. */
describe('the rules', () => {
  it.each([
    'await sql.raw(`SELECT * FROM keys WHERE id = ${id}`).execute(db)',
    'sql.raw(text)',
    'sql`SELECT ${sql.lit(request.name)}`',
    'CompiledQuery.raw(text, [])',
    'CompiledQuery.raw(`SELECT ${name}`, [])',
    "await client.query('SELECT * FROM keys WHERE id = ' + id)",
    'await client.query(`SELECT * FROM keys WHERE id = ${id}`)',
    'await client.query(text)',
    'archive.rows(files, (relation) => `SELECT * FROM ${relation}`)',
    'const text = `\n  SELECT *\n  FROM keys\n  WHERE id = ${id}`;',
    '  const text = `UPDATE keys SET name = ${name}`;',
    'const text = "DELETE FROM keys WHERE id = " + id;',
  ])('find concatenated SQL: %s', (line) => {
    expect(faultsOf('apps/x/src/x.ts', line)).not.toEqual([]);
  });

  it.each([
    'sql`SELECT * FROM keys WHERE id = ${id}`.execute(db)',
    'duck`SELECT * FROM keys WHERE id = ${id}`',
    'sql<{ id: string; name: string }>`\n  SELECT ${id}`',
    'sql<SqlBool>`UPDATE keys SET name = ${name}`',
    'sql`SET LOCAL statement_timeout = ${sql.lit(TIMEOUT_MS)}`',
    'sql.ref(`${alias}.${name}`)',
    'CompiledQuery.raw(INSERT, [])',
    "client.query('SELECT pg_try_advisory_lock($1)', [key])",
    'const INSERT = `\n  INSERT INTO usage_events (${NAMES}) VALUES ($1)`;',
    'const message = `Set ${name} to a number`;',
    'const message = `With ${name}, it works`;',
    'request.query.name',
  ])('accept SQL with parameters: %s', (line) => {
    expect(faultsOf('apps/x/src/x.ts', line)).toEqual([]);
  });

  it.each([
    'if (token === wanted) return;',
    'if (given !== sharedSecret) throw refused();',
    "return password == settings.password ? 'in' : 'out';",
    'if (request.headers.authorization === controlPlaneToken) return;',
  ])('find a comparison with a timing side channel: %s', (line) => {
    expect(faultsOf('apps/x/src/x.ts', line)).not.toEqual([]);
  });

  it.each([
    'if (token === undefined) return;',
    "if (secret !== '') return;",
    'if (undefined === token) return;',
    "typeof credential === 'string'",
    'tokensPerMinute === 0 || maxTokens > tokens',
    'perToken === 0n',
    'timingSafeEqual(digest(given), digest(token))',
  ])('accept a comparison without a secret: %s', (line) => {
    expect(faultsOf('apps/x/src/x.ts', line)).toEqual([]);
  });
});
/* biome-ignore-end lint/suspicious/noTemplateCurlyInString: these are texts of source. */
