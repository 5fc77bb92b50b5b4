import { fromBinary } from '@bufbuild/protobuf';
import { AttributionSchema, UsageEventSchema } from '@weighbridge/contracts';
import { attributionOf, type EventAttribution, type EventPayer, payerOf } from './eventParts.ts';

/** Of up to 2 kB each. */
const MAX_PARTS = 4_096;
/** Longer parts rarely repeat. */
const MAX_PART_BYTES = 2_048;

/**
 * Decoded parts of earlier events, by their bytes. Callers repeat their requests to a model, so the payer and the attribution,
 * which are most of an event, are decoded and validated once for many events.
 */
export interface DecodeCache {
  /** The payer's fields of an event. Throws if the ledger refuses them. */
  payer(bytes: Buffer, start: number, end: number): EventPayer;
  attribution(bytes: Buffer, start: number, end: number): EventAttribution;
}

export function createDecodeCache(): DecodeCache {
  return {
    payer: cached((bytes) => payerOf(fromBinary(UsageEventSchema, bytes))),
    attribution: cached((bytes) => attributionOf(fromBinary(AttributionSchema, bytes))),
  };
}

function cached<T>(read: (bytes: Buffer) => T): (bytes: Buffer, start: number, end: number) => T {
  const parts = new Map<string, T>();
  return (bytes, start, end) => {
    if (end - start > MAX_PART_BYTES) return read(bytes.subarray(start, end));
    // One character per byte: texts are equal if and only if the bytes are.
    const key = bytes.toString('latin1', start, end);
    const known = parts.get(key);
    if (known !== undefined) return known;
    const part = read(bytes.subarray(start, end));
    // Parts still in use are soon decoded again.
    if (parts.size >= MAX_PARTS) parts.clear();
    parts.set(key, part);
    return part;
  };
}
