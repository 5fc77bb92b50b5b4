import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const HEAP_GROWTH = new URL('../dist/heapGrowth.js', import.meta.url).href;

/** What a process prints: the size of its young generation in MiB after objects that survive, held and not. */
const PROGRAM = `
import { getHeapSpaceStatistics } from 'node:v8';
import { holdYoungSpace, letYoungSpaceGrow } from '${HEAP_GROWTH}';
const kept = [];
const grow = () => {
  for (let at = 0; at < 600_000; at++) kept.push({ at });
  const { space_size } = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  return space_size / 1024 / 1024;
};
holdYoungSpace();
const held = grow();
letYoungSpaceGrow();
console.log(JSON.stringify({ held, free: grow() }));
`;

it('holds the young generation while a process starts, and lets it grow afterwards', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', PROGRAM]);
  const { held, free } = JSON.parse(stdout);
  expect(held).toBeLessThan(8);
  expect(free).toBeGreaterThanOrEqual(16);
});
