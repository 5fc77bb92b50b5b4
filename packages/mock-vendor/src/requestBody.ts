import type { IncomingMessage } from 'node:http';
import { AnswerOver } from './peer.ts';
import { VendorError } from './vendorError.ts';

/** The longest body that is read; a longer one is a 413. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** The whole body. Throws a 413 when it is too long, `AnswerOver` when the peer left meanwhile. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      if (size <= MAX_BODY_BYTES) parts.push(part);
      // Read on for a while and drop it: a client in the midst of sending would not hear the answer.
      if (size > 4 * MAX_BODY_BYTES) request.destroy();
    }
  } catch {
    throw new AnswerOver();
  }
  if (size > MAX_BODY_BYTES) {
    throw new VendorError(413, `The request body must be at most ${MAX_BODY_BYTES} bytes.`, {
      code: 'request_too_large',
    });
  }
  return Buffer.concat(parts, size);
}
