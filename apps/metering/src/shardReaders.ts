import { setTimeout as sleep } from 'node:timers/promises';
import type { Subscription, UsageMessage, UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';

export interface ShardReaders {
  /** Why usage may wait in shards that this worker does not read; undefined if it reads all. */
  problem(): string | undefined;
  /** Waits until the batches in progress are committed and acknowledged to the stream. */
  stop(): Promise<void>;
}

interface ShardReaderDeps {
  readonly stream: Pick<UsageStream, 'consume' | 'shardsInUse'>;
  readonly handle: (shard: number, batch: readonly UsageMessage[]) => Promise<void>;
  /** Called with their number when it changes. */
  readonly onShards: (shards: number) => void;
  readonly lookEveryMs?: number;
}

/** How soon a worker reads a shard that no epoch has used before. */
const LOOK_EVERY_MS = 10_000;
/** Each takes a connection to Postgres, and one process decodes for all. */
const MAX_BATCHES_AT_ONCE = USAGE_SHARDS;

/**
 * Reads the first shards of the usage stream, which every epoch has, and each further one once an epoch uses it: no setting has to be the
 * same here and at the proxies, and idle shards cost nothing.
 */
export async function startShardReaders(
  { stream, handle, onShards, lookEveryMs = LOOK_EVERY_MS }: ShardReaderDeps,
  logger: Logger,
): Promise<ShardReaders> {
  const takeTurn = createTurns(MAX_BATCHES_AT_ONCE);
  const readers = new Map<number, Subscription>();
  const stopping = new AbortController();
  let failure: string | undefined;

  const read = async (shard: number) => {
    if (readers.has(shard) || stopping.signal.aborted) return;
    readers.set(shard, await stream.consume(shard, (batch) => takeTurn(() => handle(shard, batch))));
    onShards(readers.size);
  };
  const look = async () => {
    try {
      for (const shard of await stream.shardsInUse()) await read(shard);
      failure = undefined;
    } catch (error) {
      failure = 'failed to look for shards of the usage stream beyond the first four';
      logger.warn({ err: error }, `${failure}; retrying`);
    }
  };
  const stopReaders = async () => {
    await Promise.all([...readers.values()].map((reader) => reader.stop()));
  };
  try {
    for (let shard = 0; shard < USAGE_SHARDS; shard++) await read(shard);
  } catch (error) {
    await stopReaders();
    throw error;
  }
  const looking = (async () => {
    while (!stopping.signal.aborted) {
      await look();
      await sleep(lookEveryMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    problem: () => failure,
    async stop() {
      stopping.abort();
      await looking;
      await stopReaders();
    },
  };
}

/** Runs at most so much work at once; the rest waits in the order in which it came. */
function createTurns(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running === most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}
