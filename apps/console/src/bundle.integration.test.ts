import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';

const DIST = join(import.meta.dirname, '../dist');
const MAX_FIRST_VIEW_BYTES = 180 * 1024;

/** The files that one needs, with those that they need: what a browser loads before it shows a page. */
function closure(names: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (name: string) => {
    if (found.has(name)) return;
    found.add(name);
    if (!name.endsWith('.js')) return;
    const text = readFileSync(join(DIST, 'assets', name), 'utf8');
    for (const [, next = ''] of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+)["']/g)) visit(next);
  };
  for (const name of names) visit(name);
  return found;
}

it('shows the first page with at most 180 KB, compressed', () => {
  const html = readFileSync(join(DIST, 'index.html'), 'utf8');
  const named = [...html.matchAll(/\/console\/assets\/([\w.-]+)/g)].map(([, name = '']) => name);
  // A build that comes from a cache leaves the files of an earlier one beside its own.
  const loaders = [...closure(named)]
    .map((name) => readFileSync(join(DIST, 'assets', name), 'utf8'))
    .join('');
  const ofOverview = [...new Set(loaders.match(/Overview-[\w-]+\.js/g))];
  expect(ofOverview.length).toBe(1);
  const files = [...closure([...named, ...ofOverview])];
  const bytes = files
    .map((name) => gzipSync(readFileSync(join(DIST, 'assets', name))).length)
    .reduce((sum, size) => sum + size, gzipSync(html).length);
  expect(bytes).toBeGreaterThan(50_000);
  expect(bytes).toBeLessThanOrEqual(MAX_FIRST_VIEW_BYTES);
});
