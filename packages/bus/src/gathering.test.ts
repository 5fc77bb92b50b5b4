import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { createGathering } from './gathering.ts';

it('leaves nothing behind on a signal that outlives ten thousand waits', async () => {
  const gathering = createGathering<number>();
  const stopping = new AbortController();
  for (let at = 0; at < 10_000; at++) {
    const taken = gathering.take(1, stopping.signal);
    gathering.add(at);
    expect(await taken).toEqual([at]);
  }
  expect(getEventListeners(stopping.signal, 'abort')).toEqual([]);

  const last = gathering.take(1, stopping.signal);
  expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(1);
  stopping.abort();
  expect(await last).toEqual([]);
});
