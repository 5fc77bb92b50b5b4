import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { REPOSITORY } from './repository.ts';

const SCRIPT = join(REPOSITORY, '.ci/release-notes');
const run = promisify(execFile);

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-notes-'));
  await mkdir(join(folder, '.ci'));
  await copyFile(SCRIPT, join(folder, '.ci/release-notes'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const notes = async (version: string) => (await run(join(folder, '.ci/release-notes'), [version])).stdout;

it('prints the section of a release, and no other', async () => {
  await writeFile(
    join(folder, 'CHANGELOG.md'),
    '# Changelog\n\n## Unreleased\n\n- Later.\n\n## 0.12.0 (2026-12-01)\n\n### Money\n\n- Twelve.\n\n## 0.1.0\n\n- One.\n\n## 0.0.9\n\n',
  );
  expect(await notes('0.12.0')).toBe('### Money\n\n- Twelve.\n');
  expect(await notes('0.1.0')).toBe('- One.\n');
  for (const missing of ['0.1', '0.12', '0.0.9', '9.9.9']) {
    await expect(notes(missing)).rejects.toThrow(`no section "## ${missing}" with anything in it`);
  }
});

it('has notes of the release that is tagged', async () => {
  const { stdout } = await run(SCRIPT, ['0.1.0']);
  expect(stdout).toMatch(/^### Running it\n[\s\S]*Budgets hold over any number of proxies/);
  expect(stdout).not.toContain('\n## ');
});
