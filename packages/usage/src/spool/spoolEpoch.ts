import type { Logger } from '@weighbridge/runtime';
import type { Segment } from './epochIndex.ts';
import { advanceAcked, type EpochIndex, isAcked, numberOf, removeSegment } from './epochIndex.ts';
import type { EpochWriter } from './epochWriter.ts';
import { createEventReader } from './eventReader.ts';
import type { FileSystem } from './fileSystem.ts';
import { decodeLease, encodeAck } from './recordFormat.ts';
import type { SpoolEpoch } from './types.ts';

// The life of an epoch, one run of a process on a spool:
//
//   own → orphaned → closed → removed
//   own → suspended → own
//
// own        its process appends to it and sends its events
// suspended  the process ended without reaching the control plane; the next start continues the epoch
// orphaned   the process ended or died; the next start, or a sibling, settles its open attempts and sends what is unacked
// closed     the ledger has all its events, and the control plane has recorded its end; an own epoch may close too
// removed    its folder is deleted

interface SpoolEpochDeps {
  readonly epoch: EpochIndex;
  readonly files: FileSystem;
  readonly logger: Logger;
}

/** The epoch of this process. Segments are deleted in any order, so that one slow shard does not block the others. */
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
      (segment, at) =>
        writer.isReplaced(segment) && isAcked(epoch, segment) && !epoch.segments[at - 1]?.hasUncutTail,
    );
    if (segments.length === 0) return;
    try {
      writer.writeAck(encodeAck(epoch.seed, epoch.ackedN));
    } catch (error) {
      // Deleted all the same to free space: the next start asks the ledger what it has.
      logger.warn({ err: error }, 'failed to write an ack to the spool');
    }
    removeEach(deps, segments);
  }

  /** In a full spool the current segment never fills up, so its acked events would occupy it for ever. */
  function rotateAcked(): boolean {
    const { current } = writer;
    if (!current || !isAcked(epoch, current)) return false;
    if (current.bytes < Math.max(segmentBytes / 2, 2 * writer.preambleBytes)) return false;
    try {
      writer.rotate();
      return true;
    } catch (error) {
      logger.error({ err: error }, 'failed to begin a spool segment');
      return false;
    }
  }

  return {
    ...readable(files, epoch),
    leases: () => leases,

    ack(shard, n) {
      if (!advanceAcked(epoch, shard, n)) return;
      flush();
      // First, because the new segment may need the space.
      removeAcked();
      if (rotateAcked()) removeAcked();
    },

    async remove() {
      flush();
      await writer.close();
      await removeFolder(deps);
    },
  };
}

/** The epoch of an earlier run. Its last segment stays until `remove`: it holds the last numbers. */
export function orphanedEpoch(
  deps: SpoolEpochDeps & { readonly leases: ReadonlyMap<string, Buffer>; readonly onRemoved: () => void },
): SpoolEpoch {
  const { epoch, files } = deps;
  const leases = new Map([...deps.leases].map(([key, record]) => [key, decodeLease(record).bytes]));

  /** A prefix, so that the first remaining number tells the next start what was acked. */
  function removable(): Segment[] {
    const firstNeeded = epoch.segments.findIndex((segment) => !isAcked(epoch, segment));
    const end = firstNeeded === -1 ? -1 : Math.min(firstNeeded, epoch.segments.length - 1);
    return epoch.segments.slice(0, end);
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
    key: epoch.key,
    epoch: epoch.epoch,
    shards: epoch.lastN.length,
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
      logger.warn({ err: error, file: segment.path }, 'failed to delete an acked spool file');
      return;
    }
  }
}

async function removeFolder({ epoch, files }: SpoolEpochDeps): Promise<void> {
  // Oldest first: if the process dies here, the rest is still a readable epoch.
  for (const segment of [...epoch.segments]) removeSegment(files, epoch, segment);
  await files.removeFolder(epoch.folder);
}
