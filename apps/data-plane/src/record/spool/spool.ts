import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensureFolder, type FolderLock, type Logger, lockFolder } from '@weighbridge/runtime';
import { AttemptEntry, type AttemptsOfSpool } from './attemptEntry.ts';
import type { EpochIndex } from './epochIndex.ts';
import { createEpochWriter, type OpenIntent } from './epochWriter.ts';
import { type FileSystem, nodeFileSystem } from './fileSystem.ts';
import { createGroupCommit } from './groupCommit.ts';
import { ADOPTING, openOrphanedEpochs, PRODUCER_FILE, readProducer } from './orphanedEpochs.ts';
import {
  decodeLease,
  encodeIntent,
  encodeLease,
  epochSeed,
  eventRecordBytes,
  FRAME_BYTES,
  MAX_RECORD_BYTES,
} from './recordFormat.ts';
import { type RecoveredEpoch, recoverEpoch } from './recoverEpoch.ts';
import { perShard } from './segment.ts';
import { ownEpoch } from './spoolEpoch.ts';
import { takeSuspended, writeSuspended } from './suspendedEpoch.ts';
import { type Intent, type Spool, SpoolFullError, type SpoolOptions } from './types.ts';

const SEGMENT_BYTES = 16 * 1024 * 1024;
/** What is kept free for the tail of an attempt that is open; the sender bounds tails to less. */
const TAIL_RESERVE_BYTES = 1536;
/** A sibling that takes over what is in the folder needs milliseconds. */
const ADOPTION_WAIT_MS = 5_000;
const ADOPTION_LOOK_MS = 50;
const UUID_CHARACTERS = 36;

/**
 * Opens the spool in a folder, which it makes. Rejects where another process works on it, and where it can't be written
 * to.
 */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  const { dir, logger } = options;
  await ensureFolder(dir, 0o700);
  const lock = await takeFolder(dir);
  try {
    const producerId = await makeProducer(dir, options.newId, logger);
    return await open(options, producerId, lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function open(options: SpoolOptions, producerId: string, lock: FolderLock): Promise<Spool> {
  const { dir, maxBytes, sync, now, logger, files = nodeFileSystem } = options;
  const segmentBytes = Math.min(options.segmentBytes ?? SEGMENT_BYTES, Math.floor(maxBytes / 8));
  let usedBytes = 0;
  /** For the SETTLEs of what is open. */
  let reservedBytes = 0;
  let damagedRecords = 0;
  let isClosed = false;

  const account = (bytes: number) => {
    usedBytes += bytes;
  };
  const rested = await recoverRested({ ...options, files }, producerId, account);
  const epochId = rested?.files.epoch ?? options.newId();
  const seed = epochSeed(epochId);
  const epoch: EpochIndex = rested?.files ?? {
    producerId,
    epoch: epochId,
    folder: join(dir, epochId),
    seed,
    segments: [],
    lastN: perShard(0n),
    ackedN: perShard(0n),
    account,
  };
  for (const { bytes } of epoch.segments) account(bytes);
  const leases = new Map<string, Uint8Array>();
  for (const record of rested?.leases.values() ?? []) {
    const { key, bytes } = decodeLease(record);
    leases.set(key, bytes);
  }
  const writer = createEpochWriter({
    ...(rested && { nextSeq: rested.nextSeq, leases: rested.leases }),
    epoch,
    files,
    sync,
    segmentBytes,
    hasRoomForCopies: (bytes) => usedBytes + reservedBytes + bytes <= maxBytes,
    now,
    logger,
  });
  const leftBehind = await openOrphanedEpochs({
    dir,
    producerId,
    ownEpoch: epochId,
    files,
    sync,
    segmentBytes,
    now,
    logger,
    account,
    onDamage: (records) => {
      damagedRecords += records;
    },
  });
  try {
    // At once, so that the next start knows of this epoch, whatever happens to it.
    writer.rotate();
  } catch (error) {
    logger.error({ err: error, dir }, 'the spool can not be written to; priced requests are refused');
  }
  const turn = createGroupCommit(writer);
  const own = ownEpoch({ epoch, files, logger, writer, flush: turn.flush, leases, segmentBytes });
  /** Of the attempts that have no end yet that is written. */
  const openIds = new Set<string>();

  function settleBytes(eventId: string, headBytes: number): number {
    return eventRecordBytes(eventId, headBytes) + TAIL_RESERVE_BYTES;
  }

  /** With its own copy, and those of the others, in a new segment: that a write fails must not take the last room. */
  function fits(intentBytes: number, settledBytes: number): boolean {
    const written = usedBytes + reservedBytes + writer.openingBytes;
    return written + settledBytes + 2 * (turn.queuedBytes + intentBytes) <= maxBytes;
  }

  function assertCanBegin({ eventId, shard, head }: Intent, settledBytes: number): void {
    if (isClosed) throw new Error('the spool is closed');
    if (epoch.lastN[shard] === undefined) throw new RangeError(`there is no shard ${shard}`);
    if (eventId.length > 255 || settledBytes > MAX_RECORD_BYTES) {
      throw new RangeError(`an event of ${head.length} bytes is too large for the spool`);
    }
    if (openIds.has(eventId)) throw new Error(`the attempt ${eventId} has begun already`);
    if (!writer.isReady) throw new Error('the spool could not be written to a moment ago');
  }

  function assertCanSettle({ eventId, head }: OpenIntent, tail: Uint8Array): void {
    if (isClosed) throw new Error('the spool is closed');
    const bytes = head.length + tail.length;
    if (eventRecordBytes(eventId, bytes) <= MAX_RECORD_BYTES) return;
    throw new RangeError(`an event of ${bytes} bytes is too large for the spool`);
  }

  const attempts: AttemptsOfSpool = {
    add: turn.add,
    assertCanSettle,
    ended(eventId, settledBytes) {
      reservedBytes -= settledBytes;
      openIds.delete(eventId);
    },
  };

  return {
    producerId,
    epoch: epochId,
    isResumed: rested !== undefined,
    own,
    maxBytes,
    get usedBytes() {
      return usedBytes;
    },
    get damagedRecords() {
      return damagedRecords;
    },

    hasRoom(headBytes) {
      const intentBytes = eventRecordBytes('', headBytes) + UUID_CHARACTERS;
      return !isClosed && writer.isReady && fits(intentBytes, intentBytes + TAIL_RESERVE_BYTES);
    },

    begin(intent) {
      const { eventId } = intent;
      const settledBytes = settleBytes(eventId, intent.head.length);
      assertCanBegin(intent, settledBytes);
      const record = encodeIntent(seed, intent);
      if (!fits(record.length, settledBytes)) {
        throw new SpoolFullError(`the spool in ${dir} is full: ${usedBytes} of ${maxBytes} bytes are used`);
      }
      reservedBytes += settledBytes;
      openIds.add(eventId);
      return new AttemptEntry(attempts, intent, record, settledBytes);
    },

    get openAttempts() {
      return openIds.size;
    },

    durable() {
      const written = turn.written();
      if (sync === 'process') return written;
      return written ? written.then(() => writer.durable()) : writer.durable();
    },

    flush: () => turn.flush(),

    writeLease(key, bytes) {
      turn.flush();
      const record = encodeLease(seed, key, bytes);
      if (usedBytes + record.length > maxBytes) throw new SpoolFullError(`the spool in ${dir} is full`);
      writer.writeLease(key, record, bytes.length === 0);
      if (bytes.length === 0) leases.delete(key);
      else leases.set(key, record.subarray(FRAME_BYTES + 2 + Buffer.byteLength(key)));
    },

    takeOrphanedEpochs: async () => (isClosed ? [] : leftBehind.take()),

    async close({ rest } = { rest: false }) {
      if (isClosed) return;
      isClosed = true;
      try {
        // The next process would settle what is being settled.
        await leftBehind.idle();
        turn.flush();
        await writer.close();
        if (rest && writer.open.size === 0) await writeSuspended(dir, epochId);
      } finally {
        await lock.release();
      }
    },
  };
}

/** The epoch that an earlier process left so that it can be gone on with; undefined where there is none. */
async function recoverRested(
  { dir, files, logger }: SpoolOptions & { readonly files: FileSystem },
  producerId: string,
  account: (bytes: number) => void,
): Promise<RecoveredEpoch | undefined> {
  const epoch = await takeSuspended(dir);
  if (epoch === undefined) return undefined;
  try {
    const place = { folder: join(dir, epoch), epoch, producerId };
    const recovered = await recoverEpoch({ files, logger, account }, place);
    return recovered.open.size === 0 && recovered.damagedRecords === 0 ? recovered : undefined;
  } catch (error) {
    logger.warn({ err: error, epoch }, 'an epoch that came to rest can not be gone on with; it is closed');
    return undefined;
  }
}

async function takeFolder(dir: string): Promise<FolderLock> {
  for (let waitedMs = 0; ; waitedMs += ADOPTION_LOOK_MS) {
    const lock = await lockFolder(dir, '');
    if ('release' in lock) return lock;
    if (lock.heldBy !== ADOPTING || waitedMs >= ADOPTION_WAIT_MS) {
      throw new Error(
        `Another process works on the spool in ${dir}. Stop it first, or give each its own folder by SPOOL_DIR.`,
      );
    }
    await sleep(ADOPTION_LOOK_MS);
  }
}

/** Who the folder is, made where it does not say. */
async function makeProducer(dir: string, newId: () => string, logger: Logger): Promise<string> {
  const known = await readProducer(dir);
  if (known) return known;
  const producerId = newId();
  const file = join(dir, PRODUCER_FILE);
  // Whole or not at all.
  await writeFile(`${file}.new`, `${producerId}\n`, { mode: 0o600, flush: true });
  await rename(`${file}.new`, file);
  logger.info({ dir, producerId }, 'a new spool');
  return producerId;
}
