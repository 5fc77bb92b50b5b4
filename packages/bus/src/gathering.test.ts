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

it('waits for a batch where it may, no longer than it may, and not for what the signal ends', async () => {
  const gathering = createGathering<number>(() => 1, { lingerMs: 60_000 });
  const stopping = new AbortController();
  const full = gathering.take(stopping.signal);
  for (let at = 0; at < 499; at++) gathering.add(at);
  await new Promise(setImmediate);
  expect(gathering.size).toBe(499);
  gathering.add(499);
  expect(await full).toHaveLength(500);

  const few = gathering.take(stopping.signal);
  gathering.add(1);
  await new Promise(setImmediate);
  expect(gathering.size).toBe(1);
  stopping.abort();
  expect(await few).toEqual([1]);

  const patient = createGathering<number>(() => 1, { lingerMs: 20 });
  const { signal } = new AbortController();
  const taken = patient.take(signal);
  patient.add(1);
  await new Promise(setImmediate);
  patient.add(2);
  expect(await taken).toEqual([1, 2]);
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
