import type { FolderLock, Logger } from '@weighbridge/runtime';
import { type AttemptOwner, AttemptRecord, type Intent } from './attemptRecord.ts';
import type { EpochIndex } from './epochIndex.ts';
import type { EpochWriter } from './epochWriter.ts';
import type { FileSystem } from './fileSystem.ts';
import { GroupCommit } from './groupCommit.ts';
import type { OrphanRecovery } from './orphanRecovery.ts';
import {
  encodeIntent,
  encodeLease,
  eventRecordBytes,
  FRAME_BYTES,
  MAX_RECORD_BYTES,
} from './recordFormat.ts';
import { ownEpoch } from './spoolEpoch.ts';
import { writeSuspended } from './suspendedEpoch.ts';
import { type SettledEvent, type Spool, type SpoolEpoch, SpoolFullError } from './types.ts';

/** Reserved for the tail of each open attempt; writeUsageEvent.ts bounds tails to less. */
const TAIL_RESERVE_BYTES = 4_096;
const UUID_CHARACTERS = 36;
/** Most heads take a tenth of this. A larger one may still be refused by `begin`. */
const USUAL_HEAD_BYTES = 4 * 1024;

export interface FolderSpoolDeps {
  readonly dir: string;
  readonly sync: 'process' | 'disk';
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly segmentBytes: number;
  readonly lock: FolderLock;
  readonly space: DiskSpace;
  readonly epoch: EpochIndex;
  readonly isResumed: boolean;
  readonly leases: Map<string, Uint8Array>;
  readonly writer: EpochWriter;
  readonly orphans: OrphanRecovery;
}

/** A spool in a folder that this process holds. */
export class FolderSpool implements Spool {
  readonly producerId: string;
  readonly epoch: string;
  readonly isResumed: boolean;
  readonly maxBytes: number;
  readonly own: SpoolEpoch;
  readonly #deps: FolderSpoolDeps;
  readonly #index: EpochIndex;
  readonly #space: DiskSpace;
  readonly #writer: EpochWriter;
  readonly #commits: GroupCommit;
  readonly #attemptOwner: AttemptOwner;
  /** Event ids of attempts whose end is not written yet. */
  readonly #openIds = new Set<string>();
  #listener: (event: SettledEvent) => void = () => {};
  #isClosed = false;

  constructor(deps: FolderSpoolDeps) {
    const { epoch, space, writer } = deps;
    this.producerId = epoch.producerId;
    this.epoch = epoch.epoch;
    this.isResumed = deps.isResumed;
    this.maxBytes = space.maxBytes;
    this.#deps = deps;
    this.#index = epoch;
    this.#space = space;
    this.#writer = writer;
    this.#commits = new GroupCommit(writer, (event) => this.#listener(event));
    this.own = ownEpoch({ ...deps, flush: () => this.flush() });
    this.#attemptOwner = {
      add: (attempt, tail) => this.#commits.add(attempt, tail),
      flush: () => this.#commits.flush(),
      assertCanSettle: (attempt, tail) => this.#assertCanSettle(attempt, tail),
      ended: (attempt) => {
        space.reservedBytes -= settledBytesOf(attempt);
        this.#openIds.delete(attempt.eventId);
      },
    };
  }

  get shards(): number {
    return this.own.shards;
  }

  get usedBytes(): number {
    return this.#space.usedBytes;
  }

  get damagedRecords(): number {
    return this.#space.damagedRecords;
  }

  get isDurableOnceWritten(): boolean {
    return this.#deps.sync === 'process';
  }

  get openAttempts(): number {
    return this.#openIds.size;
  }

  hasRoom(headBytes = USUAL_HEAD_BYTES): boolean {
    const intentBytes = eventRecordBytes('', headBytes) + UUID_CHARACTERS;
    const settledBytes = intentBytes + TAIL_RESERVE_BYTES;
    return !this.#isClosed && this.#writer.isReady && this.#fits(intentBytes, settledBytes);
  }

  begin(intent: Intent): AttemptRecord {
    const settledBytes = settledBytesOf(intent);
    this.#assertCanBegin(intent, settledBytes);
    const record = encodeIntent(this.#index.seed, intent);
    if (!this.#fits(record.length, settledBytes)) throw this.#full();
    this.#space.reservedBytes += settledBytes;
    this.#openIds.add(intent.eventId);
    const attempt = new AttemptRecord(record, intent, this.#attemptOwner);
    this.#commits.add(attempt, undefined);
    return attempt;
  }

  durable(): Promise<void> | undefined {
    const written = this.#commits.written();
    if (this.isDurableOnceWritten) return written;
    return written ? written.then(() => this.#writer.durable()) : this.#writer.durable();
  }

  onSettled(listener: (event: SettledEvent) => void): void {
    this.#listener = listener;
  }

  flush(): void {
    this.#commits.flush();
  }

  writeLease(key: string, bytes: Uint8Array): void {
    this.#commits.flush();
    const record = encodeLease(this.#index.seed, key, bytes);
    if (this.#space.usedBytes + record.length > this.maxBytes) throw this.#full();
    this.#writer.writeLease(key, record, bytes.length === 0);
    const { leases } = this.#deps;
    if (bytes.length === 0) leases.delete(key);
    else leases.set(key, record.subarray(FRAME_BYTES + 2 + Buffer.byteLength(key)));
  }

  async takeOrphanedEpochs(): Promise<readonly SpoolEpoch[]> {
    return this.#isClosed ? [] : this.#deps.orphans.take();
  }

  async close({ suspend } = { suspend: false }): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { dir, orphans, lock } = this.#deps;
    try {
      // A running `take` settles attempts, which the next process must not settle again.
      await orphans.idle();
      this.#commits.flush();
      await this.#writer.close();
      if (suspend && this.#writer.unsettledCount === 0) await writeSuspended(dir, this.epoch);
    } finally {
      await lock.release();
    }
  }

  #assertCanBegin({ eventId, shard, head }: Intent, settledBytes: number): void {
    if (this.#isClosed) throw new Error('the spool is closed');
    if (this.#index.lastN[shard] === undefined) throw new RangeError(`shard ${shard} does not exist`);
    if (eventId.length > 255 || settledBytes > MAX_RECORD_BYTES) {
      throw new RangeError(`an event of ${head.length} bytes is too large for the spool`);
    }
    if (this.#openIds.has(eventId)) throw new Error(`attempt ${eventId} has already begun`);
    if (!this.#writer.isReady) throw new Error('the last write to the spool failed; waiting to retry');
  }

  #assertCanSettle({ eventId, head }: AttemptRecord, tail: Uint8Array): void {
    if (this.#isClosed) throw new Error('the spool is closed');
    const bytes = head.length + tail.length;
    if (eventRecordBytes(eventId, bytes) <= MAX_RECORD_BYTES) return;
    throw new RangeError(`an event of ${bytes} bytes is too large for the spool`);
  }

  /** Counts a new segment and all copies in it twice, so that a failed write never takes the last space. */
  #fits(intentBytes: number, settledBytes: number): boolean {
    const copies = 2 * (this.#commits.queuedIntentBytes + intentBytes);
    return this.#space.hasRoom(this.#writer.preambleBytes + settledBytes + copies);
  }

  #full(): SpoolFullError {
    const { usedBytes, maxBytes } = this.#space;
    return new SpoolFullError(
      `the spool in ${this.#deps.dir} is full: ${usedBytes} of ${maxBytes} bytes are used`,
    );
  }
}

/** The space that an attempt's SETTLE may take. */
function settledBytesOf({ eventId, head }: Intent): number {
  return eventRecordBytes(eventId, head.length) + TAIL_RESERVE_BYTES;
}

/** The bytes that a producer's epochs take on disk, and may still take. */
export class DiskSpace {
  readonly maxBytes: number;
  usedBytes = 0;
  /** For the SETTLEs of open attempts. */
  reservedBytes = 0;
  damagedRecords = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** `bytes` is negative if a file was deleted. */
  readonly addToDiskUse = (bytes: number): void => {
    this.usedBytes += bytes;
  };

  hasRoom(bytes: number): boolean {
    return this.usedBytes + this.reservedBytes + bytes <= this.maxBytes;
  }
}
