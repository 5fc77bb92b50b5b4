import { readdir, stat } from 'node:fs/promises';
import type { Logger } from '@weighbridge/runtime';
import type { AttemptRecord } from './attemptRecord.ts';
import { type EpochIndex, newSegment, raiseNumbers, type Segment, segmentSeq, widen } from './epochIndex.ts';
import { EpochState, SegmentLoader } from './epochState.ts';
import type { FileSystem } from './fileSystem.ts';
import { findKey } from './producerKeys.ts';
import {
  decodeHeader,
  epochSeed,
  type Header,
  MAX_HEADER_BYTES,
  RecordType,
  recordType,
} from './recordFormat.ts';
import { scanSegment } from './scanSegment.ts';

/** An epoch as its files hold it. */
export interface StoredEpoch {
  readonly index: EpochIndex;
  /** By event id: the INTENTs without a SETTLE. */
  readonly unsettled: ReadonlyMap<string, AttemptRecord>;
  readonly leases: ReadonlyMap<string, Buffer>;
  readonly nextSeq: number;
  readonly damagedRecords: number;
}

export interface ReadEpochDeps {
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly addToDiskUse: (bytes: number) => void;
}

interface FoundSegment {
  readonly segment: Segment;
  readonly header: Header | undefined;
}

/** Reads the files of an epoch that no process writes. */
export async function readEpoch(
  { files, logger, addToDiskUse }: ReadEpochDeps,
  location: { readonly folder: string; readonly epoch: string; readonly producerId: string },
): Promise<StoredEpoch> {
  const seed = epochSeed(location.epoch);
  const found = await findSegments(files, location.folder, seed);
  const state = new EpochState();
  let damagedRecords = 0;
  for (const [at, { segment }] of found.entries()) {
    const loader = new SegmentLoader(state, segment);
    const range = { from: 0, to: validBytes(segment, found[at + 1]), seed };
    const { goodBytes, damaged } = await scanSegment(files, segment.path, range, (record, end) => {
      loader.apply(record, end);
      return true;
    });
    segment.bytes = goodBytes;
    damagedRecords += damaged;
    if (damaged > 0) {
      const message = 'spool file is damaged; usage recorded there may be missing from the ledger';
      logger.error({ file: segment.path, damaged }, message);
    }
  }

  const segments = found.map(({ segment }) => segment).filter(({ bytes }) => bytes > 0);
  const { live, lastN, ackedN } = state;
  for (const { shard } of live.unsettled.values()) widen(lastN, shard + 1);
  widen(lastN, ackedN.length);
  raiseNumbers(
    ackedN,
    lastN.map((last, shard) => deletedUpTo(segments, shard, last)),
  );
  const producerId = found.find(({ header }) => header)?.header?.producerId ?? location.producerId;
  return {
    index: {
      ...location,
      producerId,
      key: await findKey(location.folder, producerId),
      seed,
      segments,
      lastN,
      ackedN,
      addToDiskUse,
    },
    unsettled: live.unsettled,
    leases: live.leases,
    nextSeq: (found.at(-1)?.segment.seq ?? 0) + 1,
    damagedRecords,
  };
}

/** Oldest first. */
async function findSegments(files: FileSystem, folder: string, seed: number): Promise<FoundSegment[]> {
  const seqs = (await readdir(folder)).map(segmentSeq).filter((seq) => seq !== undefined);
  const found: FoundSegment[] = [];
  for (const seq of seqs.sort((a, b) => a - b)) {
    const segment = newSegment(folder, seq);
    segment.bytes = (await stat(segment.path)).size;
    found.push({ segment, header: await readHeader(files, segment, seed) });
  }
  return found;
}

async function readHeader(files: FileSystem, segment: Segment, seed: number): Promise<Header | undefined> {
  let header: Header | undefined;
  const range = { from: 0, to: Math.min(segment.bytes, MAX_HEADER_BYTES), seed };
  await scanSegment(files, segment.path, range, (record) => {
    if (recordType(record) === RecordType.header) header = decodeHeader(record);
    return false;
  });
  return header;
}

/** The next segment's header has the valid length: records of a failed write beyond it may exist again elsewhere. */
function validBytes({ seq, bytes }: Segment, next: FoundSegment | undefined): number {
  if (!next?.header || next.segment.seq !== seq + 1) return bytes;
  return Math.min(bytes, next.header.previousBytes);
}

/** Only acked segments are deleted, so every number before the first that exists is acked. */
function deletedUpTo(segments: readonly Segment[], shard: number, lastN: bigint): bigint {
  let first = lastN + 1n;
  for (const { firstN } of segments) {
    const n = firstN[shard] ?? 0n;
    if (n > 0n && n < first) first = n;
  }
  return first - 1n;
}
