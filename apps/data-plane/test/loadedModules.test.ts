import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** Prints the packages that a proxy's process has loaded: frameworks are CommonJS, whose modules Node lists. */
const PROGRAM = `
import { createRequire } from 'node:module';
await import('${new URL('../dist/run.js', import.meta.url).href}');
const files = Object.keys(createRequire('${import.meta.url}').cache);
const packages = files.map((file) => /.*node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(file)?.[1]);
console.log(JSON.stringify([...new Set(packages)]));
`;

it('a proxy loads no web framework, no validator of schemas and no database client', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', PROGRAM]);
  const packages: string[] = JSON.parse(stdout);
  expect(packages).toContain('pino');
  const unwanted = ['fastify', 'find-my-way', 'ajv', 'pg', 'kysely'];
  expect(packages.filter((name) => unwanted.includes(name))).toEqual([]);
});
