import { expect, it, vi } from 'vitest';
import { type RepeatedTask, repeat } from './repeat.ts';

function start(task: Pick<RepeatedTask, 'run'> & Partial<RepeatedTask>) {
  const [info, warn] = [vi.fn(), vi.fn()];
  const steps: (() => unknown)[] = [];
  const onShutdown = (_name: string, step: () => unknown) => void steps.push(step);
  repeat(
    { name: 'a task', everyMs: 1, onFailure: 'failed; trying again', ...task },
    { info, warn },
    { onShutdown },
  );
  return { info, warn, stop: async () => await steps[0]?.() };
}

it('runs a task at once and again, one run at a time, until it is stopped', async () => {
  let running = 0;
  let most = 0;
  let runs = 0;
  const { stop } = start({
    async run() {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running--;
      runs++;
    },
  });
  expect(running).toBe(1);
  await expect.poll(() => runs).toBeGreaterThan(2);
  await stop();
  const before = runs;
  expect([running, most]).toEqual([0, 1]);
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(runs).toBe(before);
});

it('goes on after a failure, and warns only if the next run fails too', async () => {
  const error = new Error('no database');
  let runs = 0;
  const { info, warn, stop } = start({
    async run() {
      if ([1, 3, 4].includes(++runs)) throw error;
    },
  });
  await expect.poll(() => runs).toBeGreaterThan(4);
  await stop();
  const line = [{ why: error }, 'failed; trying again'];
  expect([info.mock.calls, warn.mock.calls]).toEqual([[line, line], [line]]);
});

it('aborts the run in progress when the service ends, and logs nothing of that', async () => {
  const { info, warn, stop } = start({
    run: (stopping) =>
      new Promise((_resolve, reject) => stopping.addEventListener('abort', () => reject(stopping.reason))),
  });
  await stop();
  for (const log of [info, warn]) expect(log).not.toHaveBeenCalled();
});

it('waits until a run is due', async () => {
  let isDue = false;
  let runs = 0;
  const { stop } = start({ isDue: () => isDue, run: async () => void runs++ });
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(runs).toBe(0);
  isDue = true;
  await expect.poll(() => runs).toBeGreaterThan(0);
  await stop();
});
