import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { createGathering } from './gathering.ts';

it('leaves nothing behind on a signal that outlives ten thousand waits', async () => {
  const gathering = createGathering<number>(() => 1);
  const stopping = new AbortController();
  for (let at = 0; at < 10_000; at++) {
    const taken = gathering.take(stopping.signal);
    gathering.add(at);
    expect(await taken).toEqual([at]);
  }
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([]);

  const last = gathering.take(stopping.signal);
  expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(1);
  stopping.abort();
  expect(await last).toEqual([]);
});

it('bounds a batch by messages and by bytes, and never holds back one that is larger by itself', async () => {
  const gathering = createGathering<number>((bytes) => bytes);
  const { signal } = new AbortController();
  for (let at = 0; at < 600; at++) gathering.add(1);
  for (const megabytes of [0.6, 0.6, 5]) gathering.add(megabytes * 1024 * 1024);
  const sizes: number[] = [];
  while (gathering.size > 0) sizes.push((await gathering.take(signal)).length);
  expect(sizes).toEqual([500, 101, 1, 1]);
});

it('has no room while a batch waits, and has it again once that is taken', async () => {
  const gathering = createGathering<number>(() => 1);
  const { signal } = new AbortController();
  for (let at = 0; at < 500; at++) gathering.add(at);
  let hasRoom = false;
  const room = gathering.room(signal).then(() => {
    hasRoom = true;
  });
  await Promise.resolve();
  expect(hasRoom).toBe(false);
  await gathering.take(signal);
  await room;
  expect(hasRoom).toBe(true);
});

it('wakes each of two takers for an item of its own', async () => {
  const gathering = createGathering<number>(() => 1);
  const { signal } = new AbortController();
  const taken = [gathering.take(signal), gathering.take(signal)];
  gathering.add(1);
  await taken[0];
  gathering.add(2);
  expect(await Promise.all(taken)).toEqual([[1], [2]]);
});
