import type { IncomingMessage } from 'node:http';
import { VendorError } from '../shared/vendorError.ts';
import { ReplyAborted } from './disconnect.ts';

/** A longer body is a 413. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Reads the whole body. Throws a 413 if it is too long, `ReplyAborted` if the client disconnects. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      if (size <= MAX_BODY_BYTES) parts.push(part);
      // Reads on and drops it: a client that is still sending would not read the response.
      if (size > 4 * MAX_BODY_BYTES) request.destroy();
    }
  } catch {
    throw new ReplyAborted();
  }
  if (size > MAX_BODY_BYTES) {
    throw new VendorError(413, `The request body must be at most ${MAX_BODY_BYTES} bytes.`, {
      code: 'request_too_large',
    });
  }
  return Buffer.concat(parts, size);
}
