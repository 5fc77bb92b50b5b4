import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A client that ends its side so soon after its request has only sent its last word; a later one has most likely left. */
const WITH_REQUEST_MS = 25;
/** How long such a client is not asked: most answers come before. */
const PATIENCE_MS = 3_000;
/** The reset that answers a probe is seen by the next one. */
const PAIR_MS = 50;
/** Some clients count the interim responses, or the digits of a chunk's length. */
const MAX_PROBES = 4;

/** What Node keeps of a response under way. */
interface Sending {
  readonly _headerSent: boolean;
  readonly chunkedEncoding: boolean;
}

/**
 * A client ended its side. It may still read what it is owed, or have closed the connection: only what is sent to it
 * tells. It is asked in two pairs of probes. Its connection closes once it turns out to have left.
 */
export function watchHalfClosed(
  socket: Socket,
  responses: readonly ServerResponse[],
  sinceRequestMs: number,
): void {
  const [response] = responses;
  if (!response) return;
  // HTTP/1.0 knows no interim response to ask with.
  if (response.req.httpVersion === '1.0') return void socket.destroy();
  let probes = 0;
  const ask = (): void => {
    const [first] = responses;
    if (!first || socket.destroyed) return;
    probe(socket, first);
    probes++;
    if (probes < MAX_PROBES) setTimeout(ask, probes % 2 === 1 ? PAIR_MS : PATIENCE_MS).unref();
  };
  if (sinceRequestMs > WITH_REQUEST_MS) ask();
  else setTimeout(ask, PATIENCE_MS).unref();
}

/** Sends something without a meaning: the system of a client that closed the connection answers it with a reset. */
function probe(socket: Socket, response: ServerResponse): void {
  // What is on its way asks as well.
  if (response.writableEnded || socket.writableLength > 0) return;
  const { _headerSent: isBegun, chunkedEncoding } = response as unknown as Sending;
  // The one interim response that every client knows; and a zero before the length of the next chunk.
  if (!response.headersSent) response.writeContinue();
  else if (isBegun && chunkedEncoding) {
    socket.write('0');
    resetIfCut(socket);
  }
}

/**
 * A zero without its line end, and then the end of the connection, is the last chunk to lenient clients (Python's
 * http.client): they would take a part for the whole. A reset is an error to every client.
 */
function resetIfCut(socket: Socket): void {
  const written = socket.bytesWritten;
  const { destroy } = socket;
  socket.destroy = function (this: Socket, error?: Error) {
    socket.destroy = destroy;
    const isCut = !error && socket.bytesWritten === written && !socket.destroyed;
    return isCut ? socket.resetAndDestroy() : destroy.call(this, error);
  } as typeof destroy;
}
