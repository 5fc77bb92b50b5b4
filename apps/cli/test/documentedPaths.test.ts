import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { brokenLinks, missingPaths, readPages } from './documentedPaths.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const pages = await readPages(ROOT);

it('every path in a document exists', () => {
  expect(pages.length).toBeGreaterThan(35);
  expect(pages.flatMap((page) => missingPaths(ROOT, page))).toEqual([]);
});

it('every link between documents leads to a file and a heading', () => {
  expect(pages.flatMap((page) => brokenLinks(ROOT, page, pages))).toEqual([]);
});

it('a missing path, file or heading is found', () => {
  const text = [
    '`docs/api.md`, `docs/none.md`, `apps/*/test/*.e2e.test.ts`, `packages/none/*.ts`, `apps/cli/dist/main.js`,',
    '[a](api.md#errors), [b](none.md), [c](api.md#none), [d](#here), [e](#there), [f](https://example.com/none).',
    '## Here',
  ].join('\n');
  const page = { file: 'docs/page.md', text };
  expect(missingPaths(ROOT, page)).toEqual([
    'docs/page.md: no docs/none.md',
    'docs/page.md: no packages/none/*.ts',
  ]);
  expect(brokenLinks(ROOT, page, [...pages, page])).toEqual([
    'docs/page.md: no file for ](none.md)',
    'docs/page.md: no heading for ](api.md#none)',
    'docs/page.md: no heading for ](#there)',
  ]);
});
