import { fromBinary } from '@bufbuild/protobuf';
import { AttributionSchema, UsageEventSchema } from '@weighbridge/contracts';
import { attributionOf, type EventAttribution, type EventPayer, payerOf } from './eventParts.ts';

/** Of some 2 kB each. */
const MAX_PARTS = 4_096;
/** What is longer is hardly ever seen again. */
const MAX_PART_BYTES = 2_048;

/**
 * What was read of events before, by its bytes. Whoever asks a model does so again, in the same words: what says so is
 * most of an event, and is decoded and checked once for all of them.
 */
export interface KnownParts {
  /** The fields of an event that say who pays it. Throws on what the ledger could not take. */
  payer(bytes: Buffer, start: number, end: number): EventPayer;
  attribution(bytes: Buffer, start: number, end: number): EventAttribution;
}

export function createKnownParts(): KnownParts {
  return {
    payer: remembered((bytes) => payerOf(fromBinary(UsageEventSchema, bytes))),
    attribution: remembered((bytes) => attributionOf(fromBinary(AttributionSchema, bytes))),
  };
}

function remembered<T>(read: (bytes: Buffer) => T): (bytes: Buffer, start: number, end: number) => T {
  const known = new Map<string, T>();
  return (bytes, start, end) => {
    if (end - start > MAX_PART_BYTES) return read(bytes.subarray(start, end));
    // A character for each byte: two texts are equal if the bytes are.
    const key = bytes.toString('latin1', start, end);
    const before = known.get(key);
    if (before !== undefined) return before;
    const part = read(bytes.subarray(start, end));
    // Those that are still in use are soon here again.
    if (known.size >= MAX_PARTS) known.clear();
    known.set(key, part);
    return part;
  };
}
