import type { Logger } from '@weighbridge/runtime';
import {
  advanceConfirmed,
  createEventReader,
  type EpochFiles,
  isConfirmed,
  numberOf,
  removeSegment,
} from './epochFiles.ts';
import type { EpochWriter } from './epochWriter.ts';
import { decodeLease, encodeConfirm } from './record.ts';
import type { Segment } from './segment.ts';
import type { SpoolFiles } from './spoolFiles.ts';
import type { SpoolEpoch } from './types.ts';

interface SpoolEpochDeps {
  readonly epoch: EpochFiles;
  readonly files: SpoolFiles;
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

  function removeConfirmed(): void {
    const segments = epoch.segments.filter(
      (segment, index) =>
        writer.isReplaced(segment) && isConfirmed(epoch, segment) && !epoch.segments[index - 1]?.isUncut,
    );
    if (segments.length === 0) return;
    try {
      writer.addNote(encodeConfirm(epoch.seed, epoch.confirmedN));
    } catch (error) {
      // Deleted all the same, since the room is needed: the next start asks the ledger what it holds.
      logger.warn({ err: error }, 'what the ledger confirmed could not be noted in the spool');
    }
    removeEach(deps, segments);
  }

  /** Otherwise what is confirmed would keep its place until its file is full, which in a full spool it never is. */
  function endConfirmedSegment(): boolean {
    const { current } = writer;
    if (!current || !isConfirmed(epoch, current)) return false;
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

    confirm(shard, n) {
      if (!advanceConfirmed(epoch, shard, n)) return;
      flush();
      // What is freed first may be what the new file needs.
      removeConfirmed();
      if (endConfirmedSegment()) removeConfirmed();
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
    const firstNeeded = epoch.segments.findIndex((segment) => !isConfirmed(epoch, segment));
    // From the oldest on only: then what is left tells the next start what was confirmed.
    return epoch.segments.slice(
      0,
      firstNeeded === -1 ? -1 : Math.min(firstNeeded, epoch.segments.length - 1),
    );
  }

  return {
    ...readable(files, epoch),
    leases: () => leases,
    confirm(shard, n) {
      if (advanceConfirmed(epoch, shard, n)) removeEach(deps, removable());
    },
    async remove() {
      await removeFolder(deps);
      deps.onRemoved();
    },
  };
}

function readable(files: SpoolFiles, epoch: EpochFiles) {
  return {
    producerId: epoch.producerId,
    epoch: epoch.epoch,
    lastN: (shard: number) => numberOf(epoch.lastN, shard),
    confirmedN: (shard: number) => numberOf(epoch.confirmedN, shard),
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
