import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import type { Spool } from '@weighbridge/usage/recording';
import {
  createUsageLog,
  type FileSystem,
  nodeFileSystem,
  openSpool,
  type UsageLog,
} from '@weighbridge/usage/recording';

/** A real spool in its own folder, without a sender. */
export interface TestUsageLog {
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
  return {
    usage: createUsageLog(spool, ({ bytes }) => void events.push(fromBinary(UsageEventSchema, bytes))),
    spool,
    events,
    close: async () => {
      await spool.close();
      await rm(parent, { recursive: true, force: true });
    },
  };
}
