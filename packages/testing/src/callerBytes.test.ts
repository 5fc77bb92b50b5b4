import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';

const RULE = fileURLToPath(new URL('../callerBytes.mjs', import.meta.url));
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** What the rule says of a tree with this one file. */
function said(file: string, code: string): { readonly fails: boolean; readonly text: string } {
  const root = mkdtempSync(join(tmpdir(), 'caller-bytes-'));
  folders.push(root);
  mkdirSync(join(root, dirname(file)), { recursive: true });
  writeFileSync(join(root, file), code);
  const { status, stderr } = spawnSync(process.execPath, [RULE], { cwd: root, encoding: 'utf8' });
  return { fails: status !== 0, text: stderr };
}

it.each([
  'export const x = (bytes: Buffer) => JSON.parse(bytes.toString());',
  "export const x = (text: string) => JSON['parse'](text);",
  'const { parse } = JSON;',
  'const json = JSON;',
  "import { parseJson } from '../formats/jsonFields.ts';",
])('a module that parses what a caller sent fails the check: %s', (code) => {
  for (const file of ['apps/data-plane/src/request/planted.ts', 'packages/dialects/src/chat/planted.ts']) {
    expect(said(file, code)).toMatchObject({ fails: true, text: expect.stringContaining(file) });
  }
});

it.each(['// As `JSON.parse` does it.', '/** JSON.parse */ export const x = JSON.stringify({});'])(
  'what parses nothing passes: %s',
  (code) => {
    expect(said('apps/data-plane/src/request/planted.ts', code)).toEqual({ fails: false, text: '' });
  },
);

it('a module that is listed and parses nothing any more fails', () => {
  expect(said('apps/data-plane/src/run.ts', 'export {};').fails).toBe(true);
});
