import type { Logger } from '@weighbridge/runtime';
import type { EpochIndex } from './epochIndex.ts';
import type { FileSystem } from './fileSystem.ts';
import {
  claimedBytes,
  FRAME_BYTES,
  isIntact,
  RecordType,
  recordType,
  settledN,
  settledShard,
} from './recordFormat.ts';
import type { WrittenSegment } from './segment.ts';

export interface DiskSyncDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly current: () => WrittenSegment | undefined;
  readonly rotate: () => void;
  readonly append: (record: Buffer, shard: number, n: bigint) => void;
  readonly failed: () => void;
  readonly succeeded: () => void;
}

export interface DiskSync {
  /** The latest segment of which it is sure that its copies of what was open are on disk. */
  readonly openedSeq: number;
  opened(written: WrittenSegment): void;
  /** Resolves when all that was written before the call is on disk; many calls share a sync. */
  durable(): Promise<void>;
  /** Tries a last time, and closes the files. */
  close(): Promise<void>;
}

/**
 * Brings an epoch on disk. After a sync that failed, the system may take pages for clean that never came on disk, so
 * that a second sync of the file proves nothing. What that file and the later ones have beyond their last good sync is
 * therefore written again, to a new file: its copies of what is open, and the SETTLEs in their order. They then exist
 * twice, under the same numbers, which whoever reads passes over.
 */
export function createDiskSync(deps: DiskSyncDeps): DiskSync {
  const { epoch, files, logger, current, rotate, append } = deps;
  /** Oldest first. While one waits for its sync, later ones had none at all. */
  const waiting: WrittenSegment[] = [];
  let openedSeq = 0;
  let isFolderSynced = true;
  /** A sync failed, and what it was about is not written again yet. */
  let isUntrusted = false;
  let running: Promise<void> = Promise.resolve();
  let queued: Promise<void> | undefined;

  async function sync(): Promise<void> {
    let syncedSeq = 0;
    for (const written of [...waiting]) {
      const { segment, file } = written;
      const { bytes } = segment;
      if (bytes > written.syncedBytes) await files.sync(file);
      written.syncedBytes = bytes;
      syncedSeq = segment.seq;
      if (isDone(written)) forget(written);
    }
    if (!isFolderSynced) {
      isFolderSynced = true;
      await files.syncFolder(epoch.folder).catch((error) => {
        isFolderSynced = false;
        throw error;
      });
    }
    openedSeq = Math.max(openedSeq, syncedSeq);
  }

  function isDone(written: WrittenSegment): boolean {
    return written !== current() && written.syncedBytes >= written.segment.bytes;
  }

  function forget(written: WrittenSegment): void {
    waiting.splice(waiting.indexOf(written), 1);
    try {
      files.close(written.file);
    } catch (error) {
      logger.warn({ err: error }, 'a file of the spool could not be closed');
    }
  }

  /** In one go, so that nothing that is settled meanwhile gets in between. */
  function writeAgain(): void {
    const untrusted = [...waiting];
    rotate();
    for (const written of untrusted) {
      for (const record of unsyncedRecords(written)) {
        if (recordType(record) === RecordType.settle) append(record, settledShard(record), settledN(record));
      }
    }
    for (const written of untrusted) forget(written);
  }

  function unsyncedRecords({ segment, file, syncedBytes }: WrittenSegment): Buffer[] {
    const bytes = Buffer.allocUnsafe(segment.bytes - syncedBytes);
    for (let done = 0; done < bytes.length; ) {
      const read = files.read(file, bytes.subarray(done), syncedBytes + done);
      if (read <= 0) throw new Error(`${segment.path} can't be read back`);
      done += read;
    }
    const records: Buffer[] = [];
    for (let at = 0; bytes.length - at >= FRAME_BYTES; ) {
      const total = claimedBytes(bytes, at, bytes.length - at);
      const record = bytes.subarray(at, at + total);
      if (total === 0 || !isIntact(record, epoch.seed)) throw new Error(`${segment.path} can't be read back`);
      records.push(record);
      at += total;
    }
    return records;
  }

  async function flush(): Promise<void> {
    if (!isUntrusted) {
      try {
        await sync();
        deps.succeeded();
        return;
      } catch (error) {
        logger.error({ err: error, folder: epoch.folder }, 'a sync of the spool failed; trying a new file');
        isUntrusted = true;
      }
    }
    try {
      writeAgain();
      await sync();
      isUntrusted = false;
      deps.succeeded();
    } catch (error) {
      deps.failed();
      throw error;
    }
  }

  function durable(): Promise<void> {
    queued ??= running
      .catch(() => {})
      .then(() => {
        queued = undefined;
        running = flush();
        return running;
      });
    return queued;
  }

  return {
    get openedSeq() {
      return openedSeq;
    },
    opened(written) {
      waiting.push(written);
      isFolderSynced = false;
    },
    durable,
    async close() {
      await durable().catch((error: unknown) => {
        logger.error({ err: error }, 'the spool could not be brought on disk at its end');
      });
      for (const written of [...waiting]) forget(written);
    },
  };
}
