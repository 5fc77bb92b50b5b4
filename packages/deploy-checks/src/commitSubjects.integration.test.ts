import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { REPOSITORY } from './repository.ts';

const SCRIPT = join(REPOSITORY, '.ci/check-commit-subjects');
const run = promisify(execFile);

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-commits-'));
  await git('init', '--quiet', '--initial-branch=main');
  await commit('x'.repeat(100)); // Commits of the base are not checked.
  await git('switch', '--quiet', '--create', 'feature');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function git(...args: string[]): Promise<void> {
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'commit.gpgsign=false'];
  await run('git', [...identity, ...args], { cwd: folder });
}

const commit = (message: string) => git('commit', '--quiet', '--allow-empty', '--message', message);

/** The exit code and standard error of the script on the test's repository. */
async function check(base: string): Promise<{ code: number; stderr: string }> {
  try {
    await run(SCRIPT, [base], { cwd: folder });
    return { code: 0, stderr: '' };
  } catch (error) {
    const { code, stderr } = error as { code: number; stderr: string };
    return { code, stderr };
  }
}

it('accepts subjects of 72 characters, counted as characters, and long bodies', async () => {
  await commit('x'.repeat(72));
  await commit(`${'µ'.repeat(72)}\n\n${'a body may be long '.repeat(20)}`);
  expect(await check('main')).toEqual({ code: 0, stderr: '' });
});

it('refuses a subject of 73 characters and names the commit', async () => {
  await commit('spool: name the states of an epoch');
  await commit('y'.repeat(73));
  const { code, stderr } = await check('main');
  expect(code).toBe(1);
  expect(stderr).toMatch(/^[0-9a-f]+: the subject has 73 characters, at most 72 are allowed: y{73}\n$/);
});

it('ignores merge commits', async () => {
  await commit('proxy: first change');
  await git('switch', '--quiet', 'main');
  await commit('proxy: second change');
  await git('switch', '--quiet', 'feature');
  await git('merge', '--quiet', '--no-ff', '--message', 'm'.repeat(90), 'main');
  expect(await check('main')).toEqual({ code: 0, stderr: '' });
});

it('accepts a branch without commits, and fails on an unknown base', async () => {
  expect(await check('main')).toEqual({ code: 0, stderr: '' });
  expect((await check('no-such-branch')).code).not.toBe(0);
});
