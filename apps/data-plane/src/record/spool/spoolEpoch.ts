import type { Logger } from '@weighbridge/runtime';
import {
  advanceAcked,
  createEventReader,
  type EpochIndex,
  isAcked,
  numberOf,
  removeSegment,
} from './epochIndex.ts';
import type { EpochWriter } from './epochWriter.ts';
import type { FileSystem } from './fileSystem.ts';
import { decodeLease, encodeAck } from './recordFormat.ts';
import type { Segment } from './segment.ts';
import type { SpoolEpoch } from './types.ts';

interface SpoolEpochDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly logger: Logger;
}

/** The epoch of this process. Files are deleted in any order, so that a shard that waits holds up its own only. */
export function ownEpoch(
  deps: SpoolEpochDeps & {
    readonly writer: EpochWriter;
    /** Writes what waits for the end of the turn. */
    readonly flush: () => void;
    readonly leases: ReadonlyMap<string, Uint8Array>;
    readonly segmentBytes: number;
  },
): SpoolEpoch {
  const { epoch, files, logger, writer, flush, leases, segmentBytes } = deps;

  function removeAcked(): void {
    const segments = epoch.segments.filter(
      (segment, index) =>
        writer.isReplaced(segment) && isAcked(epoch, segment) && !epoch.segments[index - 1]?.isUncut,
    );
    if (segments.length === 0) return;
    try {
      writer.addNote(encodeAck(epoch.seed, epoch.ackedN));
    } catch (error) {
      // Deleted all the same, since the room is needed: the next start asks the ledger what it holds.
      logger.warn({ err: error }, 'what the ledger confirmed could not be noted in the spool');
    }
    removeEach(deps, segments);
  }

  /** Otherwise what is confirmed would keep its place until its file is full, which in a full spool it never is. */
  function endAckedSegment(): boolean {
    const { current } = writer;
    if (!current || !isAcked(epoch, current)) return false;
    if (current.bytes < Math.max(segmentBytes / 2, 2 * writer.openingBytes)) return false;
    try {
      writer.rotate();
      return true;
    } catch (error) {
      logger.error({ err: error }, 'a new file of the spool could not be begun');
      return false;
    }
  }

  return {
    ...readable(files, epoch),
    leases: () => leases,

    ack(shard, n) {
      if (!advanceAcked(epoch, shard, n)) return;
      flush();
      // What is freed first may be what the new file needs.
      removeAcked();
      if (endAckedSegment()) removeAcked();
    },

    async remove() {
      flush();
      await writer.close();
      await removeFolder(deps);
    },
  };
}

/** The epoch of a run that ended. Its last file stays until it is removed: it says how far the numbers go. */
export function endedEpoch(
  deps: SpoolEpochDeps & { readonly leases: ReadonlyMap<string, Buffer>; readonly onRemoved: () => void },
): SpoolEpoch {
  const { epoch, files } = deps;
  const leases = new Map([...deps.leases].map(([key, record]) => [key, decodeLease(record).bytes]));

  function removable(): Segment[] {
    const firstNeeded = epoch.segments.findIndex((segment) => !isAcked(epoch, segment));
    // From the oldest on only: then what is left tells the next start what was confirmed.
    return epoch.segments.slice(
      0,
      firstNeeded === -1 ? -1 : Math.min(firstNeeded, epoch.segments.length - 1),
    );
  }

  return {
    ...readable(files, epoch),
    leases: () => leases,
    ack(shard, n) {
      if (advanceAcked(epoch, shard, n)) removeEach(deps, removable());
    },
    async remove() {
      await removeFolder(deps);
      deps.onRemoved();
    },
  };
}

function readable(files: FileSystem, epoch: EpochIndex) {
  return {
    producerId: epoch.producerId,
    epoch: epoch.epoch,
    lastN: (shard: number) => numberOf(epoch.lastN, shard),
    ackedN: (shard: number) => numberOf(epoch.ackedN, shard),
    read: createEventReader(files, epoch),
  };
}

function removeEach({ epoch, files, logger }: SpoolEpochDeps, segments: readonly Segment[]): void {
  for (const segment of segments) {
    try {
      removeSegment(files, epoch, segment);
    } catch (error) {
      logger.warn({ err: error, file: segment.path }, 'a confirmed file of the spool could not be deleted');
      return;
    }
  }
}

async function removeFolder({ epoch, files }: SpoolEpochDeps): Promise<void> {
  // Oldest first: if this is cut off, what is left is still an epoch that can be read.
  for (const segment of [...epoch.segments]) removeSegment(files, epoch, segment);
  await files.removeFolder(epoch.folder);
}
