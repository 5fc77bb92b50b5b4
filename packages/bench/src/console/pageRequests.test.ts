import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { pageRequests } from './pageRequests.ts';

const SOURCE = join(import.meta.dirname, '../../../../apps/console/src');
const READS = /(?:'get',|client\.GET\()\s*'(\/api\/v1\/[^']+)'/g;
/** What a dialog reads before it changes it: an operation, by its id. */
const OPERATIONS = /\bread: (get\w+)/g;
const { paths } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../../../apps/control-plane/openapi.json'), 'utf8'),
) as { paths: Readonly<Record<string, { readonly get?: { readonly operationId?: string } }>> };
const pathOf = (operation: string) =>
  Object.keys(paths).find((path) => paths[path]?.get?.operationId === operation) ?? operation;

/** What is written to a file, and takes as long as it is large. */
const EXPORTS = ['/api/v1/spend/focus'];

it('has every path that the code of the pages reads, and no other', () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.tsx?$/.test(name),
  );
  const read = new Set(
    files.flatMap((name) => {
      const code = readFileSync(join(SOURCE, name), 'utf8');
      const operations = [...code.matchAll(OPERATIONS)].map(([, operation = '']) => pathOf(operation));
      return [...operations, ...[...code.matchAll(READS)].map(([, path = '']) => path)];
    }),
  );
  expect(read.size).toBeGreaterThan(30);
  const asked = pageRequests(new Date()).map(({ path }) => path.replace(/\?.*/, ''));
  expect([...new Set([...asked, ...EXPORTS])].sort()).toEqual([...read].sort());
});
