import { expect, it } from 'vitest';
import { selfTimes } from './cpuProfile.ts';

const frame = (functionName: string, url = '', lineNumber = 0) => ({ functionName, url, lineNumber });
const PROFILE = {
  startTime: 5_000_000,
  nodes: [
    { id: 1, callFrame: frame('(idle)') },
    {
      id: 2,
      callFrame: frame('serve', 'file:///w/apps/data-plane/dist/pipeline/serve.js', 9),
      children: [3, 5],
    },
    {
      id: 3,
      callFrame: frame('onData', 'file:///w/node_modules/.pnpm/undici@7/node_modules/undici/lib/a.js', 3),
    },
    { id: 4, callFrame: frame('(garbage collector)') },
    { id: 5, callFrame: frame('', 'node:net', 1) },
  ],
  samples: [2, 1, 2, 3, 4, 5, 2],
  timeDeltas: [0, 100, 100, 30, 20, 10, 5_000],
};

it('sums self times, without the skipped start and without idle time', () => {
  const { busyMicros, functions, modules, ours } = selfTimes(PROFILE, 150);
  expect(busyMicros).toBe(30 + 20 + 10 + 4 * 30);
  expect(functions.map(({ name, micros }) => [name, micros])).toEqual([
    // Capped: the process did not have the core for all of that time.
    ['(anonymous) node:net:2', 4 * 30],
    ['serve data-plane/dist/pipeline/serve.js:10', 30],
    ['onData undici/lib/a.js:4', 20],
    ['(garbage collector)', 10],
  ]);
  expect(modules.map(({ name }) => name)).toEqual([
    'node:net',
    'data-plane/pipeline',
    'undici',
    '(garbage collector)',
  ]);
  expect(ours.map(({ name, micros }) => [name, micros])).toEqual([
    ['serve data-plane/dist/pipeline/serve.js:10', 30 + 20 + 4 * 30],
  ]);
  expect(functions[0]?.share).toBeCloseTo(120 / 180);
});
