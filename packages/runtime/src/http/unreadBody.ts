import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A smaller body that no one reads is discarded as it arrives, and its connection stays open. */
const MAX_DISCARDED_BYTES = 64 * 1024;

/**
 * A response that begins before its request's body has arrived refuses that body: the connection is closed after the
 * response, and no further byte is read. To be called before the request is handled. The client has `lingerMs` to receive
 * the response: closing a socket with unread bytes resets the connection.
 */
export function closeIfUnread(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  if (!mayBeLarge(request)) return;
  const { writeHead } = response;
  response.writeHead = function (this: ServerResponse, ...head: Parameters<typeof writeHead>) {
    if (!request.complete && !response.headersSent) {
      response.shouldKeepAlive = false;
      closeUnread(request.socket, lingerMs);
    }
    return writeHead.apply(this, head);
  } as typeof writeHead;
}

/**
 * Reads no more of a body in chunks until someone wants it. Node would queue it by its bytes, and a buffer for each chunk: a
 * client that sends single bytes would fill a hundred times as much memory.
 */
export function holdChunks(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers['transfer-encoding'] === undefined) return;
  const { socket } = request;
  // Whoever reads the body resumes the socket; a body that had arrived whole does not.
  socket.pause();
  response.once('close', () => socket.resume());
}

function mayBeLarge({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined) return true;
  const length = headers['content-length'];
  return length !== undefined && Number(length) > MAX_DISCARDED_BYTES;
}

/** Replaces how Node closes the socket after its last response: at once, with a reset that may overtake the response. */
function closeUnread(socket: Socket, lingerMs: number): void {
  let isClosing = false;
  socket.destroySoon = () => {
    if (isClosing) return;
    isClosing = true;
    socket.end();
    // Not now: Node is about to read the rest of the body, in order to discard it.
    setImmediate(() => socket.pause());
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
}
