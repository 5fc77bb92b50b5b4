import { expect, it } from 'vitest';
import { OverheadWindow } from './overheadWindow.ts';

it('counts the overhead of the last five minutes in buckets, and says how long it covers', () => {
  let now = 1_000;
  const window = new OverheadWindow(() => now);
  const counted = () => {
    const { boundsUs, counts, windowMs } = window.report();
    const named = (counts ?? []).flatMap((count, at) =>
      count === 0n ? [] : [[boundsUs?.[at] ?? 'more', Number(count)] as const],
    );
    return [Object.fromEntries(named), windowMs];
  };
  expect(counted()).toEqual([{}, 0]);
  for (const ms of [0.05, 0.051, 0.1, 3, 5_000]) window.observe(ms);
  now += 30_000;
  expect(counted()).toEqual([{ 50: 1, 100: 2, 5000: 1, more: 1 }, 30_000]);
  for (let minute = 0; minute < 4; minute++) {
    now += 60_000;
    counted();
    window.observe(0.2);
  }
  expect(counted()).toEqual([{ 50: 1, 100: 2, 250: 4, 5000: 1, more: 1 }, 270_000]);
  now += 60_000;
  expect(counted()).toEqual([{ 250: 4 }, 240_000]);
});
