import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeScale, measureScale } from './scale.ts';

it('measures a lane at each size', { timeout: 300_000 }, async () => {
  const options = { lanes: ['a tenant'], factors: [0.01, 0.02], onProgress: () => {} };
  const figures = await measureScale(testRun(), options);
  const [lane] = figures.lanes;
  // An hour and a day for each of 200 and 400 users.
  expect(lane?.figures['rows of sums']).toEqual([400, 800]);
  expect(describeScale(figures)).toContain('rows of sums');
});
