import { promisify } from 'node:util';
import { constants, gunzip, gzip } from 'node:zlib';
import { seal, unseal } from '@weighbridge/domain';
import type { Span } from '../formats/scanJson.ts';
import { without } from '../formats/streamTap.ts';

/** A response as it is cached: what a model answered, without the vendor's headers. */
export interface CachedResponse {
  /** The model that answered, and the connector. */
  readonly model: string;
  readonly connectorId: string;
  readonly contentType: string;
  /** Not encoded. Of a stream: all events, hidden ones included. */
  readonly body: Buffer;
  /** What clients that did not ask for the usage don't see of the body. */
  readonly usageSpans: readonly Span[];
  /** What the request lost in translation, as `x-svc-dropped` names it; undefined if nothing. */
  readonly dropped?: string | undefined;
  /** Unix milliseconds. */
  readonly storedAtMs: number;
  readonly ttlMs: number;
}

/** A larger response is not cached. */
export const MAX_CACHED_BYTES = 1024 * 1024;
/** An estimate of what an entry takes besides its body: its key, for instance. */
const ENTRY_BYTES = 1024;
const SPAN_BYTES = 64;
const NEW_LINE = 0x0a;
const MAX_DECODED_BYTES = 2 * MAX_CACHED_BYTES;

const compress = promisify<Buffer, object, Buffer>(gzip);
const decompress = promisify<Buffer, object, Buffer>(gunzip);

/** Approximate bytes in memory. */
export function sizeOf({ body, usageSpans }: CachedResponse): number {
  return body.length + ENTRY_BYTES + usageSpans.length * SPAN_BYTES;
}

export function isFresh({ storedAtMs, ttlMs }: CachedResponse, ruleTtlMs: number, nowMs: number): boolean {
  return nowMs - storedAtMs < Math.min(ttlMs, ruleTtlMs);
}

/** The body that the client gets. */
export function clientBody({ body, usageSpans }: CachedResponse, hideUsage: boolean): Buffer {
  return hideUsage && usageSpans.length > 0 ? without(body, usageSpans) : body;
}

/** Compresses and seals a response for a store that others can read: it opens only with this key and under this name. */
export async function encodeSealed(
  response: CachedResponse,
  name: string,
  sealingKey: Buffer,
): Promise<Buffer> {
  const { body, ...head } = response;
  const plain = Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body]);
  return seal(sealingKey, await compress(plain, { level: constants.Z_BEST_SPEED }), name);
}

/** Undefined if it was sealed with another key, under another name, or was changed. */
export async function decodeSealed(
  sealed: Uint8Array,
  name: string,
  sealingKey: Buffer,
): Promise<CachedResponse | undefined> {
  const compressed = unseal(sealingKey, Buffer.from(sealed), name);
  if (!compressed) return undefined;
  const plain = await decompress(compressed, { maxOutputLength: MAX_DECODED_BYTES });
  const end = plain.indexOf(NEW_LINE);
  return { ...JSON.parse(plain.toString('utf8', 0, end)), body: plain.subarray(end + 1) };
}
