import { expect, it } from 'vitest';
import { BucketTurns, leaseTurns } from './bucketTurns.ts';

/** Calls that run until they are ended, by name. */
function calls(options: Partial<ConstructorParameters<typeof BucketTurns>[0]> = {}) {
  const turns = new BucketTurns({ perBucket: 2, maxWaiting: 100, maxWaitMs: 60_000, ...options });
  const running = new Map<string, () => void>();
  const order: string[] = [];
  const call = async (name: string, ...keys: string[]) =>
    await turns.run(keys, async () => {
      order.push(name);
      await new Promise<void>((resolve) => running.set(name, resolve));
      running.delete(name);
    });
  const end = async (name: string) => {
    running.get(name)?.();
    await new Promise<void>((resolve) => setImmediate(resolve));
  };
  return { turns, call, end, order, running: () => [...running.keys()] };
}

it('runs few calls for one bucket at a time, in order, and those of other buckets beside them', async () => {
  const { call, end, running, order } = calls();
  const all = ['a1', 'a2', 'a3', 'a4'].map((name) => call(name, 'a'));
  all.push(call('b1', 'b'));
  expect(running()).toEqual(['a1', 'a2', 'b1']);
  await end('a2');
  expect(running()).toEqual(['a1', 'b1', 'a3']);
  for (const name of ['a1', 'a3', 'a4', 'b1']) await end(name);
  await Promise.all(all);
  expect(order).toEqual(['a1', 'a2', 'b1', 'a3', 'a4']);
});

it('lets no call overtake an earlier one that waits for one of its buckets', async () => {
  const { call, end, running } = calls({ perBucket: 1 });
  const all = [call('a', 'a'), call('both', 'a', 'b'), call('b', 'b'), call('c', 'c')];
  expect(running()).toEqual(['a', 'c']);
  await end('a');
  expect(running()).toEqual(['c', 'both']);
  await end('both');
  expect(running()).toEqual(['c', 'b']);
  for (const name of ['b', 'c']) await end(name);
  await Promise.all(all);
});

it('refuses what would wait for too long, or beside too many', async () => {
  const { turns, call, end, running } = calls({ perBucket: 1, maxWaiting: 1, maxWaitMs: 10 });
  const first = call('first', 'a');
  const late = call('late', 'a');
  await expect(call('one too many', 'a')).rejects.toMatchObject({ code: 'budget_busy', kind: 'unavailable' });
  await expect(late).rejects.toMatchObject({ code: 'budget_busy', kind: 'unavailable' });
  expect(turns.waiting).toBe(0);
  await end('first');
  await first;
  // A refused call leaves nothing behind.
  const next = call('next', 'a');
  expect(running()).toEqual(['next']);
  await end('next');
  await next;
});

it('goes on after a call that failed', async () => {
  const turns = new BucketTurns({ perBucket: 1, maxWaiting: 1, maxWaitMs: 60_000 });
  const failed = turns.run(['a'], async () => {
    throw new Error('lost');
  });
  const next = turns.run(['a'], async () => 'done');
  await expect(failed).rejects.toThrow('lost');
  expect(await next).toBe('done');
});

it('leaves more than half of any pool to other buckets', () => {
  for (const connections of [2, 3, 4, 5, 6, 200]) {
    const { perBucket } = leaseTurns(connections);
    expect(perBucket).toBeGreaterThanOrEqual(1);
    expect(perBucket).toBeLessThan(Math.max(2, connections / 2 + 0.1));
  }
});
