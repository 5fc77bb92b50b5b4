import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeScale, measureScale } from './scale.ts';

it('measures a lane at each size', { timeout: 300_000 }, async () => {
  const { lanes, text } = await measure('a tenant', [0.01, 0.02]);
  // An hour and a day for each of 200 and 400 users.
  expect(lanes[0]?.figures['rows of sums']).toEqual([400, 800]);
  expect(text).toContain('rows of sums');
});

it('counts as many windows and leases after twice the days', { timeout: 300_000 }, async () => {
  const { lanes } = await measure('windows that ended', [0.2, 0.4]);
  const figures = lanes[0]?.figures ?? {};
  for (const rows of ['rows of windows', 'rows of leases']) {
    const [days, twiceTheDays] = figures[rows] ?? [];
    expect(days, rows).toBeGreaterThan(1_000);
    expect(twiceTheDays, rows).toBe(days);
  }
});

it('compares one new day and one that is due, after few days or many', { timeout: 300_000 }, async () => {
  const { lanes } = await measure('the nightly comparison', [0.1, 0.3]);
  expect(lanes[0]?.figures).toMatchObject({ 'days read': [2, 2], 'events read': [1_000, 1_000] });
});

it('measures changes of keys', async () => {
  const { lanes } = await measure('a key changes', [0.01]);
  expect(lanes[0]?.figures['µs of a change of a key']?.[0]).toBeGreaterThan(0);
});

async function measure(lane: string, factors: readonly number[]) {
  const figures = await measureScale(testRun(), { lanes: [lane], factors, onProgress: () => {} });
  return { lanes: figures.lanes, text: describeScale(figures) };
}
