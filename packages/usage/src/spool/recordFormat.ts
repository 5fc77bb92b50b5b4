import { crc32 } from 'node:zlib';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import type { Intent } from './attemptRecord.ts';

/**
 * The on-disk format of a record: u32 length of type and payload, u32 checksum, u8 type, payload; numbers are
 * little-endian. The checksum is the CRC-32 of type and payload, seeded with the epoch: bytes of another epoch never pass
 * as a record.
 *
 * header  opens a segment: epoch, valid length of the segment before, number of copies that follow, numbers by shard
 * intent  an attempt is about to be sent; its reservation is charged if no settle follows
 * settle  an attempt ended and got its number
 * ack     the numbers that the ledger has, by shard
 * lease   the latest bytes of a lease, under a key
 */
export const RecordType = { header: 1, intent: 2, settle: 3, ack: 4, lease: 5 } as const;

export const FRAME_BYTES = 9;
export const MAX_RECORD_BYTES = 1024 * 1024;
const CHECKED_FROM = 8;
/** The header of an epoch of `USAGE_SHARDS` shards, which every release reads. */
const FORMAT_OF_FOUR = 1;
/** As that, with a byte before its numbers that says of how many shards they are. */
const FORMAT_OF_MORE = 2;
/** Producer and epoch are UUIDs. */
const HEADER_FIXED_BYTES = FRAME_BYTES + 1 + 2 * 37 + 8 + 4;
export const MAX_HEADER_BYTES = headerBytes(MAX_USAGE_SHARDS);

/** The size of a header. */
export function headerBytes(shards: number): number {
  return HEADER_FIXED_BYTES + (shards === USAGE_SHARDS ? 0 : 1) + 2 * 8 * shards;
}

export function epochSeed(epoch: string): number {
  return crc32(epoch);
}

/** The length that the record at `at` claims, frame included; 0 if it is impossible. */
export function claimedBytes(buffer: Buffer, at: number, bytesLeft: number): number {
  const total = CHECKED_FROM + buffer.readUInt32LE(at);
  const type = buffer[at + CHECKED_FROM] ?? 0;
  const isPlausible =
    total >= FRAME_BYTES && total <= MAX_RECORD_BYTES && total <= bytesLeft && type >= 1 && type <= 5;
  return isPlausible ? total : 0;
}

export function isIntact(record: Buffer, seed: number): boolean {
  return crc32(record.subarray(CHECKED_FROM), seed) === record.readUInt32LE(4);
}

export function recordType(record: Buffer): number {
  return record[CHECKED_FROM] ?? 0;
}

function newRecord(type: number, payloadBytes: number): Buffer {
  const total = FRAME_BYTES + payloadBytes;
  if (total > MAX_RECORD_BYTES) throw new RangeError(`a record of ${total} bytes is too large for the spool`);
  const record = Buffer.allocUnsafe(total);
  record.writeUInt32LE(total - CHECKED_FROM, 0);
  record[CHECKED_FROM] = type;
  return record;
}

function seal(record: Buffer, seed: number): Buffer {
  record.writeUInt32LE(crc32(record.subarray(CHECKED_FROM), seed), 4);
  return record;
}

/** One byte of length, then Latin-1. Returns the end. */
function writeText(record: Buffer, text: string, at: number): number {
  record[at] = text.length;
  return at + 1 + record.write(text, at + 1, 'latin1');
}

function textEnd(record: Buffer, at: number): number {
  return at + 1 + (record[at] ?? 0);
}

function readText(record: Buffer, at: number): string {
  return record.toString('latin1', at + 1, textEnd(record, at));
}

export interface Header {
  readonly producerId: string;
  readonly epoch: string;
  /** The valid length of the segment before: bytes beyond it are left from a failed write. */
  readonly previousBytes: number;
  /** How many copies of open intents and of leases follow directly. */
  readonly copies: number;
  /** As long as the epoch has shards, as is `ackedN`. */
  readonly lastN: readonly bigint[];
  readonly ackedN: readonly bigint[];
}

export function encodeHeader(seed: number, header: Header): Buffer {
  const { producerId, epoch } = header;
  const texts = 2 + producerId.length + epoch.length;
  const shards = header.lastN.length;
  const isOfFour = shards === USAGE_SHARDS;
  const record = newRecord(RecordType.header, 1 + texts + 8 + 4 + (isOfFour ? 0 : 1) + 2 * 8 * shards);
  record[FRAME_BYTES] = isOfFour ? FORMAT_OF_FOUR : FORMAT_OF_MORE;
  let at = writeText(record, epoch, writeText(record, producerId, FRAME_BYTES + 1));
  at = record.writeBigUInt64LE(BigInt(header.previousBytes), at);
  at = record.writeUInt32LE(header.copies, at);
  if (!isOfFour) at = record.writeUInt8(shards, at);
  writeNumbers(record, header.ackedN, writeNumbers(record, header.lastN, at));
  return seal(record, seed);
}

/** Undefined if the format version is unknown. */
export function decodeHeader(record: Buffer): Header | undefined {
  const version = record[FRAME_BYTES];
  if (version !== FORMAT_OF_FOUR && version !== FORMAT_OF_MORE) return undefined;
  const epochAt = textEnd(record, FRAME_BYTES + 1);
  const at = textEnd(record, epochAt);
  const isOfFour = version === FORMAT_OF_FOUR;
  const shards = isOfFour ? USAGE_SHARDS : record.readUInt8(at + 12);
  const numbersAt = at + (isOfFour ? 12 : 13);
  return {
    producerId: readText(record, FRAME_BYTES + 1),
    epoch: readText(record, epochAt),
    previousBytes: Number(record.readBigUInt64LE(at)),
    copies: record.readUInt32LE(at + 8),
    lastN: readNumbers(record, numbersAt, shards),
    ackedN: readNumbers(record, numbersAt + 8 * shards, shards),
  };
}

export function encodeIntent(seed: number, intent: Intent): Buffer {
  const { eventId, head } = intent;
  const record = newRecord(RecordType.intent, intentFixedBytes(eventId) + head.length);
  let at = writeText(record, eventId, FRAME_BYTES);
  record[at] = intent.shard;
  at = record.writeBigInt64LE(intent.reserveNanoUsd, at + 1);
  record.set(head, at);
  return seal(record, seed);
}

/** The head is a view of the record. */
export function decodeIntent(record: Buffer): Intent {
  const at = textEnd(record, FRAME_BYTES);
  return {
    eventId: readText(record, FRAME_BYTES),
    shard: record[at] ?? 0,
    reserveNanoUsd: record.readBigInt64LE(at + 1),
    head: record.subarray(at + 9),
  };
}

function intentFixedBytes(eventId: string): number {
  return 1 + eventId.length + 1 + 8;
}

/** The size of an INTENT or SETTLE record whose event has `eventBytes` bytes. */
export function eventRecordBytes(eventId: string, eventBytes: number): number {
  return FRAME_BYTES + intentFixedBytes(eventId) + eventBytes;
}

/** Head and tail together are the bytes of the usage event. */
export function encodeSettle(
  seed: number,
  { eventId, shard, head }: Omit<Intent, 'reserveNanoUsd'>,
  n: bigint,
  tail: Uint8Array,
): Buffer {
  const record = newRecord(RecordType.settle, intentFixedBytes(eventId) + head.length + tail.length);
  let at = writeText(record, eventId, FRAME_BYTES);
  record[at] = shard;
  at = record.writeBigUInt64LE(n, at + 1);
  record.set(head, at);
  record.set(tail, at + head.length);
  return seal(record, seed);
}

/** The event id of an INTENT or SETTLE record. */
export function eventIdOf(record: Buffer): string {
  return readText(record, FRAME_BYTES);
}

export function settledShard(record: Buffer): number {
  return record[textEnd(record, FRAME_BYTES)] ?? 0;
}

export function settledN(record: Buffer): bigint {
  return record.readBigUInt64LE(textEnd(record, FRAME_BYTES) + 1);
}

/** The event, as a view of the record. */
export function settledBytes(record: Buffer): Buffer {
  return record.subarray(textEnd(record, FRAME_BYTES) + 9);
}

export function encodeAck(seed: number, ackedN: readonly bigint[]): Buffer {
  const record = newRecord(RecordType.ack, 8 * ackedN.length);
  writeNumbers(record, ackedN, FRAME_BYTES);
  return seal(record, seed);
}

export function decodeAck(record: Buffer): bigint[] {
  return readNumbers(record, FRAME_BYTES, (record.length - FRAME_BYTES) / 8);
}

export function encodeLease(seed: number, key: string, bytes: Uint8Array): Buffer {
  const name = Buffer.from(key);
  const record = newRecord(RecordType.lease, 2 + name.length + bytes.length);
  record.set(name, record.writeUInt16LE(name.length, FRAME_BYTES));
  record.set(bytes, FRAME_BYTES + 2 + name.length);
  return seal(record, seed);
}

/** The bytes are a view of the record. */
export function decodeLease(record: Buffer): { readonly key: string; readonly bytes: Buffer } {
  const at = FRAME_BYTES + 2;
  const end = at + record.readUInt16LE(FRAME_BYTES);
  return { key: record.toString('utf8', at, end), bytes: record.subarray(end) };
}

function writeNumbers(record: Buffer, numbers: readonly bigint[], at: number): number {
  let end = at;
  for (const number of numbers) end = record.writeBigUInt64LE(number, end);
  return end;
}

function readNumbers(record: Buffer, at: number, shards: number): bigint[] {
  return Array.from({ length: shards }, (_, shard) => record.readBigUInt64LE(at + 8 * shard));
}
