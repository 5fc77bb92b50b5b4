import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import { seal, unseal } from '@weighbridge/domain';
import type { Span } from '../formats/scanJson.ts';

/** An answer as it is kept: what it said, and nothing of how it came. */
export interface StoredAnswer {
  /** What served it, and through which connector. */
  readonly model: string;
  readonly connectorId: string;
  readonly contentType: string;
  /** Not encoded. Of a stream, all events, also those that nobody was shown. */
  readonly body: Buffer;
  /** Where the events stand in it that only report usage. */
  readonly usageSpans: readonly Span[];
  /** Unix milliseconds. */
  readonly storedAtMs: number;
  readonly ttlMs: number;
}

/** A larger answer is not kept. */
export const MAX_ANSWER_BYTES = 1024 * 1024;
/** What else there is of one, as its key. */
const FRAME_BYTES = 1024;
const SPAN_BYTES = 64;
const NEW_LINE = 0x0a;
const MAX_PACKED_BYTES = 2 * MAX_ANSWER_BYTES;

const compress = promisify<Buffer, object, Buffer>(gzip);
const decompress = promisify<Buffer, object, Buffer>(gunzip);

/** About what it takes in memory. */
export function sizeOf({ body, usageSpans }: StoredAnswer): number {
  return body.length + FRAME_BYTES + usageSpans.length * SPAN_BYTES;
}

export function isFresh({ storedAtMs, ttlMs }: StoredAnswer, ruleTtlMs: number, nowMs: number): boolean {
  return nowMs - storedAtMs < Math.min(ttlMs, ruleTtlMs);
}

/** What goes to the caller. */
export function shownBody({ body, usageSpans }: StoredAnswer, hideUsage: boolean): Buffer {
  if (!hideUsage || usageSpans.length === 0) return body;
  const shown: Buffer[] = [];
  let at = 0;
  for (const { start, end } of usageSpans) {
    shown.push(body.subarray(at, start));
    at = end;
  }
  return Buffer.concat([...shown, body.subarray(at)]);
}

/** For a store that others can read: compressed and sealed, so that it opens only under the same key and name. */
export async function pack(answer: StoredAnswer, name: string, sealingKey: Buffer): Promise<Buffer> {
  const { body, ...frame } = answer;
  const plain = Buffer.concat([Buffer.from(`${JSON.stringify(frame)}\n`), body]);
  return seal(sealingKey, await compress(plain, { level: constants.Z_BEST_SPEED }), name);
}

/** Undefined where it was packed under another key or name, or changed since. */
export async function unpack(
  packed: Uint8Array,
  name: string,
  sealingKey: Buffer,
): Promise<StoredAnswer | undefined> {
  const compressed = unseal(sealingKey, Buffer.from(packed), name);
  if (!compressed) return undefined;
  const plain = await decompress(compressed, { maxOutputLength: MAX_PACKED_BYTES });
  const end = plain.indexOf(NEW_LINE);
  return { ...JSON.parse(plain.toString('utf8', 0, end)), body: plain.subarray(end + 1) };
}
