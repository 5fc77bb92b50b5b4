import type { Logger } from '@weighbridge/runtime';
import type { EpochIndex, OpenSegment } from './epochIndex.ts';
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
import type { RetryDelay } from './retryDelay.ts';

export interface DiskSyncDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly retry: RetryDelay;
  readonly current: () => OpenSegment | undefined;
  readonly rotate: () => void;
  readonly append: (record: Buffer, shard: number, n: bigint) => void;
}

/**
 * Syncs an epoch's segments to disk. After a failed sync the kernel may mark pages clean that never reached the disk, so
 * a second sync of that file proves nothing (https://wiki.postgresql.org/wiki/Fsync_Errors). Everything in that file and
 * later ones beyond their last good sync is therefore rewritten to a new segment: copies of what is unsettled, and the
 * SETTLEs in order. They then exist twice under the same numbers; readers skip the second.
 */
export class DiskSync {
  readonly #deps: DiskSyncDeps;
  /** Open segments, oldest first. While one waits for its first sync, later ones are unsynced too. */
  readonly #segments: OpenSegment[] = [];
  #syncedSeq = 0;
  #isFolderSynced = true;
  /** A sync failed, and its records are not rewritten yet. */
  #needsRewrite = false;
  #running: Promise<void> = Promise.resolve();
  #queued: Promise<void> | undefined;

  constructor(deps: DiskSyncDeps) {
    this.#deps = deps;
  }

  /** The latest segment whose copies of unsettled intents are on disk. */
  get syncedSeq(): number {
    return this.#syncedSeq;
  }

  add(segment: OpenSegment): void {
    this.#segments.push(segment);
    this.#isFolderSynced = false;
  }

  /** Resolves when everything written before the call is on disk. Concurrent calls share a sync. */
  durable(): Promise<void> {
    this.#queued ??= this.#running
      .catch(() => {})
      .then(() => {
        this.#queued = undefined;
        this.#running = this.#syncOrRewrite();
        return this.#running;
      });
    return this.#queued;
  }

  /** Syncs a last time and closes the files. */
  async close(): Promise<void> {
    await this.durable().catch((error: unknown) => {
      this.#deps.logger.error({ err: error }, 'the last sync of the spool failed');
    });
    for (const segment of [...this.#segments]) this.#closeFile(segment);
  }

  async #syncOrRewrite(): Promise<void> {
    const { epoch, logger, retry } = this.#deps;
    if (!this.#needsRewrite) {
      try {
        await this.#sync();
        retry.succeeded();
        return;
      } catch (error) {
        logger.error({ err: error, folder: epoch.folder }, 'spool sync failed; rewriting to a new segment');
        this.#needsRewrite = true;
      }
    }
    const begunAtMs = retry.begin();
    try {
      this.#rewrite();
      await this.#sync();
      this.#needsRewrite = false;
      retry.succeeded();
    } catch (error) {
      retry.failed(begunAtMs);
      throw error;
    }
  }

  async #sync(): Promise<void> {
    const { epoch, files } = this.#deps;
    let syncedSeq = 0;
    for (const open of [...this.#segments]) {
      const { segment, file } = open;
      const { bytes } = segment;
      if (bytes > open.syncedBytes) await files.sync(file);
      open.syncedBytes = bytes;
      syncedSeq = segment.seq;
      if (this.#isFinished(open)) this.#closeFile(open);
    }
    if (!this.#isFolderSynced) {
      this.#isFolderSynced = true;
      await files.syncFolder(epoch.folder).catch((error) => {
        this.#isFolderSynced = false;
        throw error;
      });
    }
    this.#syncedSeq = Math.max(this.#syncedSeq, syncedSeq);
  }

  #isFinished(open: OpenSegment): boolean {
    return open !== this.#deps.current() && open.syncedBytes >= open.segment.bytes;
  }

  /** Synchronous, so that no new record gets in between. */
  #rewrite(): void {
    const unsynced = [...this.#segments];
    this.#deps.rotate();
    for (const segment of unsynced) {
      for (const record of this.#unsyncedRecords(segment)) {
        if (recordType(record) === RecordType.settle) {
          this.#deps.append(record, settledShard(record), settledN(record));
        }
      }
    }
    for (const segment of unsynced) this.#closeFile(segment);
  }

  #unsyncedRecords({ segment, file, syncedBytes }: OpenSegment): Buffer[] {
    const { epoch, files } = this.#deps;
    const bytes = Buffer.allocUnsafe(segment.bytes - syncedBytes);
    for (let done = 0; done < bytes.length; ) {
      const read = files.read(file, bytes.subarray(done), syncedBytes + done);
      if (read <= 0) throw new Error(`failed to read back ${segment.path}`);
      done += read;
    }
    const records: Buffer[] = [];
    for (let at = 0; bytes.length - at >= FRAME_BYTES; ) {
      const total = claimedBytes(bytes, at, bytes.length - at);
      const record = bytes.subarray(at, at + total);
      if (total === 0 || !isIntact(record, epoch.seed)) {
        throw new Error(`failed to read back ${segment.path}: damaged record`);
      }
      records.push(record);
      at += total;
    }
    return records;
  }

  #closeFile(open: OpenSegment): void {
    this.#segments.splice(this.#segments.indexOf(open), 1);
    try {
      this.#deps.files.close(open.file);
    } catch (error) {
      this.#deps.logger.warn({ err: error }, 'failed to close a spool file');
    }
  }
}
