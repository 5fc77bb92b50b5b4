import { IntrusiveSet } from '@weighbridge/domain';
import type { Logger } from '@weighbridge/runtime';
import type { AttemptRecord } from './attemptRecord.ts';
import { DiskSync } from './diskSync.ts';
import {
  type EpochIndex,
  indexSettled,
  newSegment,
  numberOf,
  type OpenSegment,
  type Segment,
} from './epochIndex.ts';
import type { FileSystem } from './fileSystem.ts';
import { RecordBuffer, totalBytes, writeFully } from './fileSystem.ts';
import { encodeHeader, encodeSettle, headerBytes } from './recordFormat.ts';
import { RetryDelay } from './retryDelay.ts';
import type { SettledEvent } from './types.ts';

/** An attempt's INTENT to write, or with `tail` its SETTLE. */
export interface PendingRecord {
  readonly attempt: AttemptRecord;
  readonly tail: Uint8Array | undefined;
}

export interface EpochWriterDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly sync: 'process' | 'disk';
  readonly segmentBytes: number;
  /** Whether this many bytes may be used for copies of unsettled intents. */
  readonly hasRoomForCopies: (bytes: number) => boolean;
  readonly now: () => Date;
  readonly logger: Logger;
  /** The state of a recovered epoch. */
  readonly nextSeq?: number;
  readonly unsettled?: ReadonlyMap<string, AttemptRecord>;
  readonly leases?: ReadonlyMap<string, Buffer>;
}

/** A segment's copies are written in parts of about this size. */
const COPY_CHUNK_BYTES = 1024 * 1024;

/**
 * Appends the records of one epoch to its current segment. When a segment is full or a write to it fails, the next one
 * begins with copies of all unsettled intents and leases and becomes current once they are complete. A segment is never
 * written again once the next one was tried (states: epochIndex.ts). Two counters: `n` numbers the usage events of a shard,
 * `seq` the segments.
 */
export class EpochWriter {
  readonly #deps: EpochWriterDeps;
  readonly #unsettled = new IntrusiveSet<AttemptRecord>();
  readonly #leases: Map<string, Buffer>;
  readonly #retry: RetryDelay;
  readonly #disk: DiskSync | undefined;
  readonly #joined = new RecordBuffer();
  /** The size of the copies at the start of a new segment: all unsettled intents and leases. */
  #bytesToCopy = 0;
  #current: OpenSegment | undefined;
  /** Of the latest segment that was created. */
  #createdSeq = 0;
  #nextSeq: number;
  #isClosed = false;

  constructor(deps: EpochWriterDeps) {
    this.#deps = deps;
    for (const attempt of deps.unsettled?.values() ?? []) this.#unsettled.add(attempt);
    this.#leases = new Map(deps.leases);
    for (const { record } of this.#unsettled.values()) this.#bytesToCopy += record.length;
    for (const record of this.#leases.values()) this.#bytesToCopy += record.length;
    this.#nextSeq = deps.nextSeq ?? 1;
    this.#retry = new RetryDelay(deps.now);
    if (deps.sync !== 'disk') return;
    this.#disk = new DiskSync({
      epoch: deps.epoch,
      files: deps.files,
      logger: deps.logger,
      retry: this.#retry,
      current: () => this.#current,
      rotate: () => this.rotate(),
      append: (record, shard, n) => indexSettled(this.#append([record]), shard, n),
    });
  }

  get unsettledCount(): number {
    return this.#unsettled.size;
  }

  /** The size of a new segment's header and copies, if one began now. */
  get preambleBytes(): number {
    return headerBytes(this.#deps.epoch.lastN.length) + this.#bytesToCopy;
  }

  /** False after a failure, until the retry delay is over. */
  get isReady(): boolean {
    return this.#retry.isOver;
  }

  get current(): Segment | undefined {
    return this.#current?.segment;
  }

  /** A later segment has copies of everything that was unsettled in this one; on disk, if `sync` is `disk`. */
  isReplaced({ seq }: Segment): boolean {
    return seq < (this.#disk ? this.#disk.syncedSeq : this.#createdSeq);
  }

  /**
   * Writes INTENTs and SETTLEs by one write, in this order, all or nothing: if it throws, no attempt begins or ends, and
   * there may be no current segment. Returns the event of each SETTLE, numbered now that it is written.
   */
  write(records: readonly PendingRecord[]): readonly (SettledEvent | undefined)[] {
    const events: (SettledEvent | undefined)[] = [];
    const segment = this.#append(this.#encode(records, events));
    this.#apply(records, events, segment);
    return events;
  }

  /** Writes the latest record of a lease, which later segments copy unless it is deleted. */
  writeLease(key: string, record: Buffer, isDeleted: boolean): void {
    this.#append([record]);
    this.#bytesToCopy -= this.#leases.get(key)?.length ?? 0;
    this.#leases.delete(key);
    if (isDeleted) return;
    this.#leases.set(key, record);
    this.#bytesToCopy += record.length;
  }

  /** Writes the record if there is a current segment. */
  writeAck(record: Buffer): void {
    if (this.#current) this.#append([record]);
  }

  /** Begins the next segment, with `records` after the copies. Throws if that fails; then there is no current segment. */
  rotate(records: readonly Buffer[] = []): void {
    const { epoch } = this.#deps;
    this.#sealCurrent();
    const segment = newSegment(epoch.folder, this.#nextSeq);
    const file = this.#createSegment(segment, records);
    if (!this.#disk) this.#retry.succeeded();
    this.#createdSeq = this.#nextSeq++;
    epoch.segments.push(segment);
    epoch.addToDiskUse(segment.bytes);
    this.#current = { segment, file, syncedBytes: 0 };
    this.#disk?.add(this.#current);
  }

  durable(): Promise<void> | undefined {
    return this.#disk?.durable();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    await this.#disk?.close();
    this.#isClosed = true;
    if (this.#current && !this.#disk) this.#deps.files.close(this.#current.file);
    this.#current = undefined;
  }

  /** Numbers the SETTLEs and fills `events`; nothing is counted before the write succeeds. */
  #encode(pending: readonly PendingRecord[], events: (SettledEvent | undefined)[]): readonly Buffer[] {
    const { epoch } = this.#deps;
    const lastN = [...epoch.lastN];
    const records: Buffer[] = [];
    for (const { attempt, tail } of pending) {
      if (!tail) {
        records.push(attempt.record);
        events.push(undefined);
        continue;
      }
      const { shard, head } = attempt;
      const n = numberOf(lastN, shard) + 1n;
      lastN[shard] = n;
      const record = encodeSettle(epoch.seed, attempt, n, tail);
      records.push(record);
      events.push({ shard, n, bytes: record.subarray(record.length - head.length - tail.length) });
    }
    return records;
  }

  #apply(
    records: readonly PendingRecord[],
    events: readonly (SettledEvent | undefined)[],
    segment: Segment,
  ): void {
    const { lastN } = this.#deps.epoch;
    let at = 0;
    for (const { attempt } of records) {
      const event = events[at++];
      if (event) {
        indexSettled(segment, event.shard, event.n);
        lastN[event.shard] = event.n;
        this.#unsettled.delete(attempt);
        this.#bytesToCopy -= attempt.record.length;
      } else {
        this.#unsettled.add(attempt);
        this.#bytesToCopy += attempt.record.length;
      }
    }
  }

  /** Writes all records to one segment, or none. */
  #append(records: readonly Buffer[]): Segment {
    if (this.#isClosed) throw new Error('the spool is closed');
    const { epoch, files, logger } = this.#deps;
    const bytes = totalBytes(records);
    if (!this.#current || this.#isFull(this.#current.segment, bytes)) this.rotate(records);
    else {
      const { segment, file } = this.#current;
      try {
        writeFully(files, file, this.#joined.join(records, bytes), segment.bytes);
        segment.bytes += bytes;
        epoch.addToDiskUse(bytes);
      } catch (error) {
        logger.error({ err: error, file: segment.path }, 'spool write failed; trying a new segment');
        this.rotate(records);
      }
    }
    if (!this.#current) throw new Error('no segment is current after a write');
    return this.#current.segment;
  }

  /**
   * A segment is full only once it is twice the header and copies that the next one would begin with: otherwise, many
   * unsettled attempts would make every write rotate.
   */
  #isFull({ bytes }: Segment, more: number): boolean {
    const { segmentBytes, hasRoomForCopies } = this.#deps;
    const preamble = this.preambleBytes;
    return bytes + more > segmentBytes && bytes >= 2 * preamble && hasRoomForCopies(preamble + more);
  }

  /** Cuts off what a failed write may have left, so that recovery need not skip it. */
  #sealCurrent(): void {
    if (!this.#current) return;
    const { files } = this.#deps;
    const { segment, file } = this.#current;
    this.#current = undefined;
    segment.hasUncutTail = !this.#succeeds(segment, () => files.truncate(file, segment.bytes));
    // DiskSync closes the file after its last sync.
    if (!this.#disk) this.#succeeds(segment, () => files.close(file));
  }

  #createSegment(segment: Segment, records: readonly Buffer[]): number {
    const { epoch, files } = this.#deps;
    const begunAtMs = this.#retry.begin();
    let file: number | undefined;
    try {
      files.makeFolder(epoch.folder);
      file = files.create(segment.path);
      for (const bytes of this.#preambleWith(records)) {
        writeFully(files, file, bytes, segment.bytes);
        segment.bytes += bytes.length;
      }
      return file;
    } catch (error) {
      // The next try uses the same number and empties the file, so that a partial one never counts beside another.
      this.#succeeds(segment, () => file !== undefined && files.truncate(file, 0));
      this.#succeeds(segment, () => file !== undefined && files.close(file));
      this.#retry.failed(begunAtMs);
      throw error;
    }
  }

  /** A segment's header, copies and first records, in parts of about a MiB. */
  *#preambleWith(records: readonly Buffer[]): Generator<Buffer> {
    const { epoch } = this.#deps;
    const previousBytes = epoch.segments.at(-1)?.bytes ?? 0;
    const copies = this.#unsettled.size + this.#leases.size;
    const intents = this.#unsettled.values().map((attempt) => attempt.record);
    let chunk = [encodeHeader(epoch.seed, { ...epoch, previousBytes, copies })];
    let bytes = 0;
    for (const record of [...intents, ...this.#leases.values(), ...records]) {
      chunk.push(record);
      bytes += record.length;
      if (bytes < COPY_CHUNK_BYTES) continue;
      yield Buffer.concat(chunk);
      chunk = [];
      bytes = 0;
    }
    yield Buffer.concat(chunk);
  }

  #succeeds({ path }: Segment, operation: () => unknown): boolean {
    try {
      operation();
      return true;
    } catch (error) {
      this.#deps.logger.warn({ err: error, file: path }, 'failed to truncate or close a spool file');
      return false;
    }
  }
}
