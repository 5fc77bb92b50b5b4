import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { describeConsole, measureConsole, missing } from './console.ts';
import { pageRequests } from './pageRequests.ts';

it('asks all that the pages ask, as each who may', async () => {
  const figures = await measureConsole(testRun(), {
    events: 2_000,
    repeats: 1,
    isQuick: true,
    onProgress: () => {},
  });
  const expected = pageRequests(new Date()).flatMap(({ who }) => who);
  expect(figures.asked.map(({ who }) => who).sort()).toEqual(expected.sort());
  expect(figures.hours).toBeGreaterThan(500);
  expect(figures.asked.filter(({ statuses }) => statuses.join() !== '200')).toEqual([]);
  expect(missing(figures.asked, 0)).toHaveLength(expected.length);
  expect(describeConsole(figures)).toContain('2000 events');
});
