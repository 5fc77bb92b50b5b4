import { join } from 'node:path';
import { isSigningProducer, type ProducerKey, USAGE_SHARDS } from '@weighbridge/contracts';
import { ensureFolder, type FolderLock, type Logger } from '@weighbridge/runtime';
import type { EpochIndex } from './epochIndex.ts';
import { noNumbers } from './epochIndex.ts';
import { EpochWriter } from './epochWriter.ts';
import { type FileSystem, nodeFileSystem } from './fileSystem.ts';
import { DiskSpace, FolderSpool } from './folderSpool.ts';
import { OrphanRecovery } from './orphanRecovery.ts';
import { readOrMakeProducer } from './producerKeys.ts';
import { readEpoch, type StoredEpoch } from './readEpoch.ts';
import { decodeLease, epochSeed } from './recordFormat.ts';
import { lockSpool } from './spoolFolder.ts';
import { takeSuspended } from './suspendedEpoch.ts';
import type { Spool, SpoolOptions } from './types.ts';

// After a crash, the next start on the spool, or a process whose spool is beside it, recovers the usage:
//
// ../sender/orphanSender.ts  looks for epochs that no process writes, at the start and every 10 s
//   adoptSpools.ts           moves such epochs of spools beside this one into this folder
//   orphanRecovery.ts        takes each epoch once: reads it, then charges attempts without a SETTLE their reservations
//     readEpoch.ts           reads its files: scanSegment.ts finds the records, epochState.ts applies them
// ../sender/orphanSender.ts  sends what the ledger lacks, closes the epoch and deletes its folder
//
// ../sendDeadSpool.ts does the same by hand, for `weighbridge spool replay`.
//
// A process that shuts down in order, but without the control plane, suspends its epoch (suspendedEpoch.ts): the next start
// continues it.

const SEGMENT_BYTES = 16 * 1024 * 1024;

/** Opens the spool in a folder, created if missing. Rejects if another process uses it or it can't be written. */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const { dir, logger } = options;
  await ensureFolder(dir, 0o700);
  const lock = await lockSpool(dir);
  try {
    return await openEpoch(options, await readOrMakeProducer(dir, logger), lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function openEpoch(options: SpoolOptions, key: ProducerKey, lock: FolderLock): Promise<Spool> {
  const { dir, maxBytes, sync, now, logger, files = nodeFileSystem } = options;
  const segmentBytes = Math.min(options.segmentBytes ?? SEGMENT_BYTES, Math.floor(maxBytes / 8));
  const { producerId } = key;
  const space = new DiskSpace(maxBytes);
  const resumed = await resumeSuspended({ dir, producerId, files, logger, addToDiskUse: space.addToDiskUse });
  const epoch = resumed?.index ?? newIndex(options, key, space);
  for (const { bytes } of epoch.segments) space.addToDiskUse(bytes);
  const writer = new EpochWriter({
    ...(resumed && { nextSeq: resumed.nextSeq, leases: resumed.leases }),
    epoch,
    files,
    sync,
    segmentBytes,
    hasRoomForCopies: (bytes) => space.hasRoom(bytes),
    now,
    logger,
  });
  const orphans = await OrphanRecovery.open({
    dir,
    producerId,
    ownEpoch: epoch.epoch,
    files,
    sync,
    segmentBytes,
    now,
    logger,
    addToDiskUse: space.addToDiskUse,
    onDamage: (records) => {
      space.damagedRecords += records;
    },
  });
  try {
    // The first segment makes the epoch known to the next start.
    writer.rotate();
  } catch (error) {
    logger.error({ err: error, dir }, 'failed to write to the spool; priced requests are refused');
  }
  const isResumed = resumed !== undefined;
  const leases = decodeLeases(resumed);
  return new FolderSpool({
    dir,
    sync,
    files,
    logger,
    segmentBytes,
    lock,
    space,
    epoch,
    isResumed,
    leases,
    writer,
    orphans,
  });
}

/** The epoch that the last process suspended, if it is intact and has no open attempts. */
async function resumeSuspended({
  dir,
  producerId,
  ...deps
}: {
  readonly dir: string;
  readonly producerId: string;
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly addToDiskUse: (bytes: number) => void;
}): Promise<StoredEpoch | undefined> {
  const epoch = await takeSuspended(dir);
  if (epoch === undefined) return undefined;
  try {
    const stored = await readEpoch(deps, { folder: join(dir, epoch), epoch, producerId });
    const { index, unsettled, damagedRecords } = stored;
    const canSend = index.key !== undefined || !isSigningProducer(index.producerId);
    return canSend && unsettled.size === 0 && damagedRecords === 0 ? stored : undefined;
  } catch (error) {
    deps.logger.warn({ err: error, epoch }, 'failed to resume a suspended epoch; closing it instead');
    return undefined;
  }
}

function newIndex(
  { dir, newId, shards = USAGE_SHARDS }: SpoolOptions,
  key: ProducerKey,
  space: DiskSpace,
): EpochIndex {
  const epoch = newId();
  return {
    producerId: key.producerId,
    key,
    epoch,
    folder: join(dir, epoch),
    seed: epochSeed(epoch),
    segments: [],
    lastN: noNumbers(shards),
    ackedN: noNumbers(shards),
    addToDiskUse: space.addToDiskUse,
  };
}

function decodeLeases(resumed: StoredEpoch | undefined): Map<string, Uint8Array> {
  const leases = new Map<string, Uint8Array>();
  for (const record of resumed?.leases.values() ?? []) {
    const { key, bytes } = decodeLease(record);
    leases.set(key, bytes);
  }
  return leases;
}
