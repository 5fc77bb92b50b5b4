import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVitest, type TestSpecification, type Vitest } from 'vitest/node';
import { LongestFirst } from '../src/longestFirst.ts';

/** Verifies that no test file is left out: by a project, by a command, or by a shard. */

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const CONFIG = join(ROOT, 'packages/testing/vitest.config.ts');
const SUFFIX = /\.(test\.tsx?|clients\.ts|faults\.ts|image\.ts|cluster\.ts)$/;
/** They have configurations of their own: they need a container engine, a cluster, or hours. */
const OUTSIDE = /\.(faults|image|cluster)\.ts$/;

const PROJECTS: readonly [project: string, suffix: RegExp][] = [
  ['all', /\.all\.test\.ts$/],
  ['services', /\.(integration|e2e)\.test\.ts$/],
  ['cost', /\.cost\.test\.ts$/],
  ['clients', /\.clients\.ts$/],
  ['unit', /\.test\.tsx?$/],
];

const written = ['apps', 'packages']
  .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name)))
  .flatMap((part) => filesOf(part))
  .filter((path) => SUFFIX.test(path));

function filesOf(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return /^(node_modules|dist)$/.test(entry.name) ? [] : filesOf(path);
    return [path];
  });
}

let vitest: Vitest;
let found: TestSpecification[];
beforeAll(async () => {
  vitest = await createVitest('test', { config: CONFIG, watch: false });
  found = await vitest.globTestSpecifications();
});
afterAll(() => vitest?.close());

const pathOf = ({ moduleId }: TestSpecification): string => relative(ROOT, moduleId);

describe('a test file', () => {
  it('is in the project that its suffix names, and in no other', () => {
    const projects = new Map<string, string[]>();
    for (const one of found)
      projects.set(pathOf(one), [...(projects.get(pathOf(one)) ?? []), one.project.name]);
    const expected = written
      .filter((path) => !OUTSIDE.test(path))
      .map((path) => [path, [PROJECTS.find(([, suffix]) => suffix.test(path))?.[0]]]);
    expect([...projects].sort()).toEqual(expected.sort());
    expect(expected.length).toBeGreaterThan(500);
  });

  it.each([1, 2, 4, 7])('is in exactly one of %d shards', async (count) => {
    const shards: string[] = [];
    for (let index = 1; index <= count; index++) {
      const context = { ...vitest, config: { ...vitest.config, shard: { index, count } } };
      const shard = await new LongestFirst(context as unknown as Vitest).shard(found);
      expect(shard.length).toBeGreaterThan(0);
      shards.push(...shard.map(pathOf));
    }
    expect(shards.sort()).toEqual(found.map(pathOf).sort());
  });
});
