import type { Logger } from '@weighbridge/runtime';
import { IntrusiveSet, type Slotted } from '../../shared/intrusiveSet.ts';
import { createDiskSync } from './diskSync.ts';
import { type EpochIndex, numberOf } from './epochIndex.ts';
import type { FileSystem } from './fileSystem.ts';
import { encodeHeader, encodeSettle, HEADER_BYTES, type IntentFields } from './recordFormat.ts';
import { newSegment, noteSettled, type Segment, type WrittenSegment } from './segment.ts';
import type { SettledEvent } from './types.ts';

export interface OpenIntent extends IntentFields, Slotted {
  /** Its INTENT as it was written, the head within it. */
  readonly record: Buffer;
}

/** That an attempt begins, or, where there is a tail, that it ends. */
export interface Entry {
  readonly intent: OpenIntent;
  readonly tail: Uint8Array | undefined;
}

export interface EpochWriterDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly sync: 'process' | 'disk';
  readonly segmentBytes: number;
  /** Whether so many bytes may be spent on copies of what is open. */
  readonly hasRoomForCopies: (bytes: number) => boolean;
  readonly now: () => Date;
  readonly logger: Logger;
  /** Of an epoch that was left behind. */
  readonly nextSeq?: number;
  readonly open?: ReadonlyMap<string, OpenIntent>;
  readonly leases?: ReadonlyMap<string, Buffer>;
}

export interface EpochWriter {
  readonly open: Pick<IntrusiveSet<OpenIntent>, 'size'>;
  /** What a new segment begins with now: the bytes of its header and its copies. */
  readonly openingBytes: number;
  /** False after a failure, until it is time to try again. */
  readonly isReady: boolean;
  readonly current: Segment | undefined;
  /** Whether what was open when it was written is in a later file, on disk if that is asked for. */
  isReplaced(segment: Segment): boolean;
  /**
   * Writes what began and ended, in this order and by one write: all of it, or it throws and nothing is as if it had been
   * tried. Returns for each end its event; it has its number only now that it is written.
   */
  write(entries: readonly Entry[]): readonly (SettledEvent | undefined)[];
  /** Its latest LEASE record is copied from then on, but for one that is forgotten. */
  writeLease(key: string, record: Buffer, isForgotten: boolean): void;
  /** Into the current segment, if there is one. */
  addNote(record: Buffer): void;
  rotate(): void;
  durable(): Promise<void> | undefined;
  close(): Promise<void>;
}

const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 5_000;
const COPY_CHUNK_BYTES = 1024 * 1024;
/** What several records are put together in, as long as they fit, so that a write needs no new memory. */
const JOINED_BYTES = 64 * 1024;

/**
 * Appends the records of one epoch. A segment that is full, or that a write failed on, is followed by a new one that
 * begins with copies of everything that is open; it counts from when those are complete, and no segment is ever written
 * to again once the next one was tried.
 */
export function createEpochWriter(deps: EpochWriterDeps): EpochWriter {
  const { epoch, files, segmentBytes, logger } = deps;
  const open = new IntrusiveSet<OpenIntent>();
  for (const intent of deps.open?.values() ?? []) open.add(intent);
  const leases = new Map(deps.leases);
  let copiedBytes = 0;
  for (const { record } of open.values()) copiedBytes += record.length;
  for (const record of leases.values()) copiedBytes += record.length;
  let current: WrittenSegment | undefined;
  /** The latest segment that was begun. */
  let openedSeq = 0;
  let nextSeq = deps.nextSeq ?? 1;
  let retryMs = 0;
  let failedAtMs = 0;
  let isClosed = false;
  const disk =
    deps.sync === 'disk'
      ? createDiskSync({
          epoch,
          files,
          logger,
          current: () => current,
          rotate: () => rotate(),
          append: (record, shard, n) => noteSettled(append([record]), shard, n),
          failed,
          succeeded,
        })
      : undefined;

  let joining: Buffer | undefined;

  /** All of them into the same segment, or none. */
  function append(records: readonly Buffer[]): Segment {
    if (isClosed) throw new Error('the spool is closed');
    const bytes = lengthOf(records);
    if (!current || isFull(current.segment, bytes)) rotate(records);
    else {
      const { segment, file } = current;
      try {
        writeAll(files, file, joined(records, bytes), segment.bytes);
        segment.bytes += bytes;
        epoch.account(bytes);
      } catch (error) {
        logger.error({ err: error, file: segment.path }, 'a write to the spool failed; trying a new file');
        rotate(records);
      }
    }
    if (!current) throw new Error('a segment is open after a write');
    return current.segment;
  }

  /** Good until the next call. */
  function joined(records: readonly Buffer[], bytes: number): Buffer {
    const [first, ...others] = records;
    if (first && others.length === 0) return first;
    if (bytes > JOINED_BYTES) return Buffer.concat(records);
    joining ??= Buffer.allocUnsafeSlow(JOINED_BYTES);
    let at = 0;
    for (const record of records) at += record.copy(joining, at);
    return joining.subarray(0, at);
  }

  function openingBytes(): number {
    return HEADER_BYTES + copiedBytes;
  }

  /** Not before it holds as much as its copies take twice: many that are open must not make it turn all the time. */
  function isFull({ bytes }: Segment, more: number): boolean {
    const opening = openingBytes();
    return bytes + more > segmentBytes && bytes >= 2 * opening && deps.hasRoomForCopies(opening + more);
  }

  /** The next segment, with `records` after the copies; throws where that can't be made, and then there is none. */
  function rotate(records: readonly Buffer[] = []): void {
    retire();
    const segment = newSegment(epoch.folder, nextSeq);
    let file: number | undefined;
    try {
      files.makeFolder(epoch.folder);
      file = files.create(segment.path);
      for (const bytes of openingOf(records)) {
        writeAll(files, file, bytes, segment.bytes);
        segment.bytes += bytes.length;
      }
    } catch (error) {
      // Tried again under the same number, which empties it: what stands in it now can't come to count beside others.
      attempt(() => file !== undefined && files.truncate(file, 0));
      attempt(() => file !== undefined && files.close(file));
      failed();
      throw error;
    }
    if (!disk) succeeded();
    openedSeq = nextSeq++;
    epoch.segments.push(segment);
    epoch.account(segment.bytes);
    current = { segment, file, syncedBytes: 0 };
    disk?.opened(current);
  }

  function failed(): void {
    failedAtMs = deps.now().getTime();
    retryMs = Math.min(Math.max(retryMs * 2, RETRY_MIN_MS), RETRY_MAX_MS);
  }

  function succeeded(): void {
    retryMs = 0;
  }

  /** Cuts off what a failed write may have left, so that nobody has to read over it. */
  function retire(): void {
    if (!current) return;
    const { segment, file } = current;
    current = undefined;
    segment.isUncut = !attempt(() => files.truncate(file, segment.bytes));
    if (!disk) attempt(() => files.close(file));
  }

  function attempt(what: () => unknown): boolean {
    try {
      what();
      return true;
    } catch (error) {
      logger.warn({ err: error }, 'a file of the spool could not be cut or closed');
      return false;
    }
  }

  /** In parts of about a MiB. */
  function* openingOf(records: readonly Buffer[]): Generator<Buffer> {
    const previousBytes = epoch.segments.at(-1)?.bytes ?? 0;
    const copies = open.size + leases.size;
    const intents = open.values().map((intent) => intent.record);
    let chunk = [encodeHeader(epoch.seed, { ...epoch, previousBytes, copies })];
    let bytes = 0;
    for (const copy of [...intents, ...leases.values(), ...records]) {
      chunk.push(copy);
      bytes += copy.length;
      if (bytes < COPY_CHUNK_BYTES) continue;
      yield Buffer.concat(chunk);
      chunk = [];
      bytes = 0;
    }
    yield Buffer.concat(chunk);
  }

  return {
    open,
    get openingBytes() {
      return openingBytes();
    },
    get isReady() {
      if (retryMs === 0) return true;
      const sinceMs = deps.now().getTime() - failedAtMs;
      return sinceMs >= retryMs || sinceMs < 0;
    },
    get current() {
      return current?.segment;
    },
    isReplaced: ({ seq }) => seq < (disk ? disk.openedSeq : openedSeq),

    write(entries) {
      const lastN = [...epoch.lastN];
      const records: Buffer[] = [];
      const events: (SettledEvent | undefined)[] = [];
      for (const { intent, tail } of entries) {
        const { eventId, shard, head } = intent;
        if (!tail) {
          records.push(intent.record);
          events.push(undefined);
          continue;
        }
        const n = numberOf(lastN, shard) + 1n;
        lastN[shard] = n;
        const record = encodeSettle(epoch.seed, { eventId, shard, n, head, tail });
        records.push(record);
        events.push({ shard, n, bytes: record.subarray(record.length - head.length - tail.length) });
      }
      const segment = append(records);
      let at = 0;
      for (const { intent } of entries) {
        const event = events[at++];
        if (event) {
          noteSettled(segment, event.shard, event.n);
          epoch.lastN[event.shard] = event.n;
          open.delete(intent);
          copiedBytes -= intent.record.length;
        } else {
          open.add(intent);
          copiedBytes += intent.record.length;
        }
      }
      return events;
    },

    writeLease(key, record, isForgotten) {
      append([record]);
      copiedBytes -= leases.get(key)?.length ?? 0;
      leases.delete(key);
      if (isForgotten) return;
      leases.set(key, record);
      copiedBytes += record.length;
    },

    addNote(record) {
      if (current) append([record]);
    },
    rotate: () => rotate(),
    durable: () => disk?.durable(),

    async close() {
      if (isClosed) return;
      await disk?.close();
      isClosed = true;
      if (current && !disk) files.close(current.file);
      current = undefined;
    },
  };
}

function writeAll(files: FileSystem, file: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    const written = files.write(file, bytes, done, position + done);
    if (written <= 0) throw new Error('the disk took nothing of a write');
    done += written;
  }
}

function lengthOf(records: readonly Buffer[]): number {
  let bytes = 0;
  for (const { length } of records) bytes += length;
  return bytes;
}
