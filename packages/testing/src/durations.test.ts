import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  divide,
  expectedSeconds,
  keepDurations,
  readLastDurations,
  readSeed,
  slowestLines,
} from './durations.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'weighbridge-durations-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const PATHS = Array.from({ length: 537 }, (_, at) => `apps/x/src/f${at}.test.ts`);
const DURATIONS = Object.fromEntries(PATHS.map((path, at) => [path, (at * 7919) % 61]));

test.each([1, 2, 3, 4, 7, 600])('%d shards have every file exactly once', (count) => {
  const shards = divide(PATHS, count, DURATIONS);
  expect(shards).toHaveLength(count);
  expect(shards.flat().sort()).toEqual([...PATHS].sort());
});

test('shards are the same whatever the order of the files, and take about as long', () => {
  const shards = divide(PATHS, 4, DURATIONS);
  expect(divide(PATHS.toReversed(), 4, DURATIONS)).toEqual(shards);
  const lengths = shards.map((paths) =>
    paths.reduce((sum, path) => sum + expectedSeconds(path, DURATIONS), 0),
  );
  expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(60);
});

test('a run keeps its durations beside those of files that it did not run, and drops files that are gone', () => {
  const cache = join(folder, 'cache/durations.json');
  for (const name of ['one', 'two']) writeFileSync(join(folder, name), '');
  keepDurations({ one: 1, two: 2, gone: 3 }, cache, folder);
  keepDurations({ one: 4 }, cache, folder);
  expect(JSON.parse(readFileSync(cache, 'utf8'))).toEqual({ one: 4, two: 2 });
  expect(readLastDurations(cache)).toMatchObject({ one: 4, two: 2 });
});

test.each(['', '{', 'null', '[]', '{"one":"text"}'])('a damaged cache counts as empty: %j', (text) => {
  mkdirSync(join(folder, 'cache'));
  writeFileSync(join(folder, 'cache/durations.json'), text);
  expect(readLastDurations(join(folder, 'cache/durations.json'))).toEqual(readSeed());
});

test('a file that never ran counts by its kind', () => {
  const seconds = ['a.test.ts', 'a.integration.test.ts', 'a.e2e.test.ts', 'a.all.test.ts'].map((path) =>
    expectedSeconds(path, {}),
  );
  expect(seconds).toEqual(seconds.toSorted((one, other) => one - other));
});

test('the slowest come first', () => {
  expect(slowestLines({ a: 1, b: 30.06, c: 2 }, 2)).toEqual(['   30.1 s  b', '    2.0 s  c']);
});
