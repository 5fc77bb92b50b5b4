import type { IncomingMessage, ServerResponse } from 'node:http';
import { assertBodyFits, assertJsonBody, sendContinue } from '@weighbridge/runtime';
import type { RequestBody } from '../formats/requestBody.ts';
import { BODY_ENCODINGS, bodyEncoding } from './bodyDecoders.ts';
import { type BodyLimits, readBody, takeBodyMemory } from './readBody.ts';
import { readEncodedBody } from './readEncodedBody.ts';

/**
 * Reads the body of a request, in whichever form it comes, and resolves with what `use` makes of it; with undefined if the
 * client disconnects before its end. Throws a 413, 415 or 503 before a byte is read. Rejects with what `use` throws.
 */
export function receiveBody<Result>(
  request: IncomingMessage,
  response: ServerResponse,
  limits: BodyLimits,
  use: (body: RequestBody) => Result,
): Promise<Result | undefined> {
  const { headers } = request;
  assertBodyFits(headers, limits.limitBytes);
  assertJsonBody(headers, BODY_ENCODINGS);
  // A client that left while its key was looked up has closed already: nothing would end the reading, or return the memory.
  if (response.destroyed || request.socket.destroyed) return Promise.resolve(undefined);
  takeBodyMemory(request, limits);
  sendContinue(request, response);
  const encoding = headers['content-encoding'] === undefined ? undefined : bodyEncoding(headers);
  if (!encoding) return readBody(request, limits, use);
  return readEncodedBody(request, encoding, limits).then(
    (body) => body && use(body),
    (error) => {
      // What is left of it may still arrive.
      response.shouldKeepAlive = false;
      throw error;
    },
  );
}
