import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import {
  type FileSystem,
  nodeFileSystem,
  openSpool,
  type Spool,
  type UsageLog,
} from '@weighbridge/usage/recording';

/** A real spool in its own folder, without a sender. */
export interface TestUsageLog {
  /** What attempts use of it: tests replace parts. */
  readonly usage: UsageLog;
  readonly spool: Spool;
  /** The settled events, oldest first. */
  readonly events: UsageEvent[];
  close(): Promise<void>;
}

export async function openTestUsageLog(
  maxBytes = 64 * 1024 * 1024,
  files: FileSystem = nodeFileSystem,
): Promise<TestUsageLog> {
  const parent = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  const logger = createLogger('test');
  logger.level = 'silent';
  const spool = await openSpool({
    dir: join(parent, 'spool'),
    maxBytes,
    files,
    sync: 'process',
    newId: newUuid,
    now: () => new Date(),
    logger,
  });
  const events: UsageEvent[] = [];
  spool.onSettled(({ bytes }) => events.push(fromBinary(UsageEventSchema, bytes)));
  return {
    usage: {
      hasRoom: () => spool.hasRoom(),
      begin: (intent) => spool.begin(intent),
      durable: () => spool.durable(),
      isDurableOnceWritten: spool.isDurableOnceWritten,
      shards: spool.shards,
      get openAttempts() {
        return spool.openAttempts;
      },
    },
    spool,
    events,
    close: async () => {
      await spool.close();
      await rm(parent, { recursive: true, force: true });
    },
  };
}
