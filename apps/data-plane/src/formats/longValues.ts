import { JsonCursor, type KeyWatch, LongValues } from '@weighbridge/dialects';

/** A smaller body is gone over again faster than what is known of it is kept. */
const MIN_BODY_BYTES = 1024 * 1024;
const KNOWN = new WeakMap<Buffer, LongValues>();

/** Lets all cursors over these bytes, which may not change any more, go over each long value once. */
export function keepLongValues(bytes: Buffer): void {
  if (bytes.length >= MIN_BODY_BYTES && !KNOWN.has(bytes)) KNOWN.set(bytes, new LongValues());
}

/** A cursor over a body, or over other bytes. */
export function cursorOver(bytes: Uint8Array, watch?: KeyWatch): JsonCursor {
  const known = bytes.length >= MIN_BODY_BYTES && Buffer.isBuffer(bytes) ? KNOWN.get(bytes) : undefined;
  return new JsonCursor(bytes, watch, known);
}
