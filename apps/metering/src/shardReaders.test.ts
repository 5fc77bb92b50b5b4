import { setImmediate } from 'node:timers/promises';
import type { UsageMessage } from '@weighbridge/bus';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { afterEach, expect, it } from 'vitest';
import { type ShardReaders, startShardReaders } from './shardReaders.ts';

const logger = createLogger('test', { write: () => {} });
type Handle = (batch: readonly UsageMessage[]) => Promise<void>;

const closing: ShardReaders[] = [];
afterEach(async () => {
  for (const readers of closing.splice(0)) await readers.stop();
});

/** A stream that says which shards are used, and delivers when it is told to. */
function newStream() {
  const consumed = new Map<number, Handle>();
  const stream = {
    inUse: [] as number[],
    isAway: false,
    consumed,
    shards: 0,
    async shardsInUse() {
      if (stream.isAway) throw new Error('the stream does not respond');
      return stream.inUse;
    },
    async consume(shard: number, handle: Handle) {
      if (consumed.has(shard)) throw new Error(`shard ${shard} is read twice`);
      consumed.set(shard, handle);
      return { stop: async () => void consumed.delete(shard) };
    },
  };
  return stream;
}

async function start(
  stream: ReturnType<typeof newStream>,
  handle: (shard: number) => Promise<void> = async () => {},
) {
  const readers = await startShardReaders(
    {
      stream,
      handle,
      onShards: (shards) => {
        stream.shards = shards;
      },
      lookEveryMs: 1,
    },
    logger,
  );
  closing.push(readers);
  return readers;
}

const numbers = (stream: ReturnType<typeof newStream>) => [...stream.consumed.keys()].sort((a, b) => a - b);

it('reads the first shards at once, each other one once it is used, and none twice', async () => {
  const stream = newStream();
  const readers = await start(stream);
  expect(numbers(stream)).toEqual([0, 1, 2, 3]);
  stream.inUse = [2, 17];
  await eventually(() => expect(numbers(stream)).toEqual([0, 1, 2, 3, 17]));
  stream.inUse = [17, MAX_USAGE_SHARDS - 1];
  await eventually(() => expect(numbers(stream)).toEqual([0, 1, 2, 3, 17, 63]));
  expect(stream.shards).toBe(6);
  await readers.stop();
  expect(numbers(stream)).toEqual([]);
});

it('reads nothing if one of the first shards can not be read', async () => {
  const stream = newStream();
  const { consume } = stream;
  stream.consume = async (shard, handle) => {
    if (shard === 2) throw new Error('the stream does not respond');
    return await consume(shard, handle);
  };
  await expect(start(stream)).rejects.toThrow('does not respond');
  expect(numbers(stream)).toEqual([]);
});

it('says so while it can not find out which are used, and reads what it knows', async () => {
  const stream = newStream();
  stream.isAway = true;
  const readers = await start(stream);
  await eventually(() => expect(readers.problem()).toContain('failed to look for shards'));
  expect(numbers(stream)).toHaveLength(USAGE_SHARDS);
  stream.inUse = [9];
  stream.isAway = false;
  await eventually(() => expect(numbers(stream)).toContain(9));
  await eventually(() => expect(readers.problem()).toBeUndefined());
});

it('records batches of four shards at once, and of the others in the order in which they came', async () => {
  const stream = newStream();
  stream.inUse = Array.from({ length: MAX_USAGE_SHARDS }, (_, shard) => shard);
  const begun: number[] = [];
  const finish: (() => void)[] = [];
  await start(stream, async (shard) => {
    begun.push(shard);
    await new Promise<void>((resolve, reject) => {
      // Every third fails: its turn ends all the same.
      finish.push(begun.length % 3 === 0 ? () => reject(new Error('the database is away')) : resolve);
    });
  });
  await eventually(() => expect(stream.consumed.size).toBe(MAX_USAGE_SHARDS));
  const results = [...stream.consumed.values()].map((handle) => handle([]).catch(() => {}));
  for (let done = 0; done < MAX_USAGE_SHARDS; done++) {
    await setImmediate();
    expect(begun).toEqual(numbers(stream).slice(0, done + USAGE_SHARDS));
    finish[done]?.();
  }
  await Promise.all(results);
});
