import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { createBatchBuffer } from './batchBuffer.ts';

it('leaves no listeners on a signal that outlives 10,000 waits', async () => {
  const buffer = createBatchBuffer<number>(() => 1);
  const stopping = new AbortController();
  for (let at = 0; at < 10_000; at++) {
    const taken = buffer.take(stopping.signal);
    buffer.add(at);
    expect(await taken).toEqual([at]);
  }
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([]);

  const last = buffer.take(stopping.signal);
  expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(1);
  stopping.abort();
  expect(await last).toEqual([]);
});

it('bounds a batch by messages and by bytes, and returns a larger message alone', async () => {
  const buffer = createBatchBuffer<number>((bytes) => bytes);
  const { signal } = new AbortController();
  for (let at = 0; at < 600; at++) buffer.add(1);
  for (const megabytes of [0.6, 0.6, 5]) buffer.add(megabytes * 1024 * 1024);
  const sizes: number[] = [];
  while (buffer.size > 0) sizes.push((await buffer.take(signal)).length);
  expect(sizes).toEqual([500, 101, 1, 1]);
});

it('has no space while a batch waits, and has space again once it is taken', async () => {
  const buffer = createBatchBuffer<number>(() => 1);
  const { signal } = new AbortController();
  for (let at = 0; at < 500; at++) buffer.add(at);
  let hasSpace = false;
  const space = buffer.waitForSpace(signal).then(() => {
    hasSpace = true;
  });
  await Promise.resolve();
  expect(hasSpace).toBe(false);
  await buffer.take(signal);
  await space;
  expect(hasSpace).toBe(true);
});

it('waits for a full batch, at most for lingerMs, and not after the signal aborts', async () => {
  const buffer = createBatchBuffer<number>(() => 1, { lingerMs: 60_000 });
  const stopping = new AbortController();
  const full = buffer.take(stopping.signal);
  for (let at = 0; at < 499; at++) buffer.add(at);
  await new Promise(setImmediate);
  expect(buffer.size).toBe(499);
  buffer.add(499);
  expect(await full).toHaveLength(500);

  const few = buffer.take(stopping.signal);
  buffer.add(1);
  await new Promise(setImmediate);
  expect(buffer.size).toBe(1);
  stopping.abort();
  expect(await few).toEqual([1]);

  const lingering = createBatchBuffer<number>(() => 1, { lingerMs: 20 });
  const { signal } = new AbortController();
  const taken = lingering.take(signal);
  lingering.add(1);
  await new Promise(setImmediate);
  lingering.add(2);
  expect(await taken).toEqual([1, 2]);
});

it('wakes each of two takers for its own item', async () => {
  const buffer = createBatchBuffer<number>(() => 1);
  const { signal } = new AbortController();
  const taken = [buffer.take(signal), buffer.take(signal)];
  buffer.add(1);
  await taken[0];
  buffer.add(2);
  expect(await Promise.all(taken)).toEqual([[1], [2]]);
});
