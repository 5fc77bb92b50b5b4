import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@weighbridge/runtime';
import type { EpochIndex } from './epochIndex.ts';
import type { OpenIntent } from './epochWriter.ts';
import type { FileSystem } from './fileSystem.ts';
import {
  decodeAck,
  decodeHeader,
  decodeIntent,
  decodeLease,
  epochSeed,
  eventIdOf,
  HEADER_BYTES,
  type Header,
  RecordType,
  recordType,
  settledN,
  settledShard,
} from './recordFormat.ts';
import { newSegment, noteSettled, perShard, type Segment, scanSegment, segmentSeq } from './segment.ts';

export interface RecoveredEpoch {
  readonly files: EpochIndex;
  readonly open: ReadonlyMap<string, OpenIntent>;
  readonly leases: ReadonlyMap<string, Buffer>;
  readonly nextSeq: number;
  readonly damagedRecords: number;
}

export interface RecoverDeps {
  readonly files: FileSystem;
  readonly logger: Logger;
  readonly account: (bytes: number) => void;
}

interface Found {
  readonly segment: Segment;
  header: Header | undefined;
}

/**
 * What the files of an epoch hold that nobody writes to any more. Of attempts that are open, those count that the last
 * segment with complete copies has, and what follows them: SETTLEs of others may be in files that are gone.
 */
export async function recoverEpoch(
  { files, logger, account }: RecoverDeps,
  place: { readonly folder: string; readonly epoch: string; readonly producerId: string },
): Promise<RecoveredEpoch> {
  const seed = epochSeed(place.epoch);
  const found = await findSegments(files, place.folder, seed);
  const replay: Replay = {
    open: new Map(),
    leases: new Map(),
    lastN: perShard(0n),
    ackedN: perShard(0n),
  };
  let damagedRecords = 0;
  for (const [index, { segment }] of found.entries()) {
    const range = { from: 0, to: countedBytes(segment, found[index + 1]), seed };
    const { goodBytes, damaged } = await scanSegment(files, segment.path, range, visitor(replay, segment));
    segment.bytes = goodBytes;
    damagedRecords += damaged;
    if (damaged > 0) {
      const lost = 'a file of the spool is damaged; what is lost is missing in the ledger';
      logger.error({ file: segment.path, damaged }, lost);
    }
  }

  const segments = found.map(({ segment }) => segment).filter(({ bytes }) => bytes > 0);
  const { open, leases, lastN, ackedN } = replay;
  raise(
    ackedN,
    lastN.map((last, shard) => deletedUpTo(segments, shard, last)),
  );
  const producerId = found.find(({ header }) => header)?.header?.producerId ?? place.producerId;
  return {
    files: { ...place, producerId, seed, segments, lastN, ackedN, account },
    open,
    leases,
    nextSeq: (found.at(-1)?.segment.seq ?? 0) + 1,
    damagedRecords,
  };
}

/** What the records say, up to where they were read. */
interface Replay {
  open: Map<string, OpenIntent>;
  leases: Map<string, Buffer>;
  readonly lastN: bigint[];
  readonly ackedN: bigint[];
}

function visitor(replay: Replay, segment: Segment): (view: Buffer, end: number) => boolean {
  const copied = { open: new Map<string, OpenIntent>(), leases: new Map<string, Buffer>() };
  // How many copies are still to come; below 0 where none are, or where they are not whole.
  let copies = -1;
  let lastEnd = 0;
  return (view, end) => {
    const type = recordType(view);
    const isCopy = type === RecordType.intent || type === RecordType.lease;
    if (end - view.length !== lastEnd || (copies > 0 && !isCopy)) copies = -1;
    lastEnd = end;
    if (isCopy) {
      for (const into of [replay, copied]) keep(into, Buffer.from(view));
      copies--;
    } else if (type === RecordType.settle) {
      const shard = settledShard(view);
      const n = settledN(view);
      noteSettled(segment, shard, n);
      if (n > (replay.lastN[shard] ?? 0n)) replay.lastN[shard] = n;
      replay.open.delete(eventIdOf(view));
    } else if (type === RecordType.ack) {
      raise(replay.ackedN, decodeAck(view));
    } else {
      const header = decodeHeader(view);
      raise(replay.lastN, header?.lastN ?? []);
      raise(replay.ackedN, header?.ackedN ?? []);
      copies = header?.copies ?? -1;
    }
    if (copies === 0) {
      copies = -1;
      Object.assign(replay, copied);
    }
    return true;
  };
}

function keep({ open, leases }: Pick<Replay, 'open' | 'leases'>, record: Buffer): void {
  if (recordType(record) === RecordType.intent) {
    const intent = { ...decodeIntent(record), record, slot: -1 };
    open.set(intent.eventId, intent);
    return;
  }
  const { key, bytes } = decodeLease(record);
  if (bytes.length > 0) leases.set(key, record);
  else leases.delete(key);
}

/** The next segment says how much counts: what a failed write left beyond it may have been written again. */
function countedBytes({ seq, bytes }: Segment, next: Found | undefined): number {
  if (!next?.header || next.segment.seq !== seq + 1) return bytes;
  return Math.min(bytes, next.header.previousBytes);
}

/** Oldest first. */
async function findSegments(files: FileSystem, folder: string, seed: number): Promise<Found[]> {
  const seqs = (await readdir(folder)).map(segmentSeq).filter((seq) => seq !== undefined);
  const found: Found[] = [];
  for (const seq of seqs.sort((a, b) => a - b)) {
    const segment = newSegment(folder, seq);
    segment.bytes = (await stat(segment.path)).size;
    const one: Found = { segment, header: undefined };
    const to = Math.min(segment.bytes, HEADER_BYTES);
    await scanSegment(files, segment.path, { from: 0, to, seed }, (record) => {
      if (recordType(record) === RecordType.header) one.header = decodeHeader(record);
      return false;
    });
    found.push(one);
  }
  return found;
}

function raise(numbers: bigint[], to: readonly bigint[]): void {
  for (const [shard, n] of to.entries()) if (n > (numbers[shard] ?? 0n)) numbers[shard] = n;
}

/** Only what is confirmed is ever deleted, so what is before the first number that is there was. */
function deletedUpTo(segments: readonly Segment[], shard: number, lastN: bigint): bigint {
  let first = lastN + 1n;
  for (const { firstN } of segments) {
    const n = firstN[shard] ?? 0n;
    if (n > 0n && n < first) first = n;
  }
  return first - 1n;
}

/** How much an epoch's files take, without reading them. */
export async function epochBytes(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await stat(join(folder, name))).size;
  return bytes;
}
