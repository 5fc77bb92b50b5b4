import { expect, it } from 'vitest';
import { parseHistogram, quantileBetween } from './histogram.ts';
import { figuresOfAll } from './nodeFigures.ts';
import { recordRows } from './recordsTable.ts';
import { parseScheduler, schedulerDifference } from './schedulerFigures.ts';

const page = (counts: readonly number[]) =>
  ['0.001', '0.005', '+Inf']
    .map((bound, at) => `overhead_seconds_bucket{endpoint="a",le="${bound}"} ${counts[at]}`)
    .join('\n');

it('sums a histogram over its labels, and no other metric', () => {
  const text = `# TYPE overhead_seconds histogram
overhead_seconds_bucket{endpoint="a",le="0.001"} 2
overhead_seconds_bucket{endpoint="b",le="0.001"} 3
overhead_seconds_bucket{le="+Inf",endpoint="b"} 7
overhead_seconds_sum{endpoint="a"} 9
other_overhead_seconds_bucket{endpoint="a",le="0.001"} 5`;
  expect([...parseHistogram(text, 'overhead_seconds')]).toEqual([
    [0.001, 5],
    [Number.POSITIVE_INFINITY, 7],
  ]);
});

it('takes quantiles of what was added between two readings', () => {
  const read = (counts: readonly number[]) => parseHistogram(page(counts), 'overhead_seconds');
  const [before, after] = [read([100, 100, 100]), read([150, 200, 200])];
  expect(quantileBetween(before, after, 0.25)).toBeCloseTo(0.0005);
  expect(quantileBetween(before, after, 0.5)).toBeCloseTo(0.001);
  expect(quantileBetween(before, after, 0.99)).toBeCloseTo(0.001 + 0.004 * 0.98);
  expect(quantileBetween(after, after, 0.5)).toBeUndefined();
  expect(quantileBetween(new Map(), new Map(), 0.5)).toBeUndefined();
  // Beyond the last bound nothing is known but that.
  expect(quantileBetween(before, read([100, 100, 300]), 0.5)).toBe(0.005);
});

it('reads what the scheduler did with the main thread', () => {
  const status = 'Name:\tnode\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n';
  const before = parseScheduler('5000000 1000000 15\n', status);
  expect(before).toEqual({ ranMs: 5, waitedMs: 1, voluntarySwitches: 12, involuntarySwitches: 3 });
  const after = parseScheduler('9000000 1500000 20\n', status.replace('12', '20'));
  expect(schedulerDifference(after, before)).toEqual({
    ranMs: 4,
    waitedMs: 0.5,
    voluntarySwitches: 8,
    involuntarySwitches: 0,
  });
});

it('joins what several processes saw, unless one of them did not answer', () => {
  const seen = (loopUtilization: number, p99: number, count: number) => ({
    loopUtilization,
    loopDelayMs: { p50: 10, p99, max: p99 },
    pauses: { scavenge: { count, totalMs: count, maxMs: p99 } },
  });
  const one = seen(0.9, 12, 4);
  expect(figuresOfAll([one])).toBe(one);
  expect(figuresOfAll([one, seen(0.5, 20, 2), seen(0.4, 11, 1)])).toMatchObject({
    loopUtilization: expect.closeTo(0.6),
    loopDelayMs: { p50: 10, p99: 20, max: 20 },
    pauses: { scavenge: { count: 7, totalMs: 7, maxMs: 20 } },
  });
  expect(figuresOfAll([one, undefined])).toBeUndefined();
  expect(figuresOfAll([])).toBeUndefined();
});

it('has a row per cell with records, and none without', () => {
  const scheduler = { ranMs: 90, waitedMs: 10, voluntarySwitches: 3_000, involuntarySwitches: 20 };
  const node = {
    loopUtilization: 0.5,
    loopDelayMs: { p50: 10, p99: 11, max: 14.04 },
    pauses: {
      scavenge: { count: 4, totalMs: 6, maxMs: 2 },
      'mark-sweep': { count: 1, totalMs: 4, maxMs: 4 },
    },
  };
  const records = { requests: 2_000, overheadMs: { p50: 0.15, p99: 0.6 }, node, scheduler };
  const rows = recordRows([
    { contender: 'a', workload: 'w', rounds: [{ records }, { records }] },
    { contender: 'b', workload: 'w', rounds: [{}] },
  ]);
  expect(rows).toHaveLength(2);
  expect(rows[1]).toEqual([
    ...['w', 'a', '0.150, 0.600', '0.50', '11.0, 14.0', '2.50', '5.00, 4.0'],
    ...['8 scavenge ≤ 2.0, 2 mark-sweep ≤ 4.0', '10.0 %', '1.50, 0.010'],
  ]);
});
