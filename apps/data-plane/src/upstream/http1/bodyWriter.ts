import type { Socket } from 'node:net';
import type { RequestBody } from '../../formats/requestBody.ts';

/** Up to this size, one copy with the head costs less than a second part of the write. */
const MAX_JOINED_BYTES = 16 * 1024;

/** It goes out in one write; otherwise by a `PieceWriter`. */
export function isWhole({ pieces, isOwned }: RequestBody): boolean {
  return pieces.length < 2 && !isOwned;
}

export function writeWhole(socket: Socket, head: string, body: Buffer | undefined): void {
  if (!body || body.length === 0) {
    socket.write(head, 'latin1');
  } else if (body.length <= MAX_JOINED_BYTES) {
    socket.write(head + body.toString('latin1'), 'latin1');
  } else {
    socket.cork();
    socket.write(head, 'latin1');
    socket.write(body);
    socket.uncork();
  }
}

/** Writes a body piece by piece: the next one once the socket has none left, or is closed. */
export class PieceWriter {
  readonly #socket: Socket;
  readonly #pieces: Iterator<Buffer>;
  isOver = false;

  constructor(socket: Socket, head: string, body: RequestBody) {
    this.#socket = socket;
    this.#pieces = body.toWrite();
    socket.cork();
    socket.write(head, 'latin1');
    this.writeMore();
    socket.uncork();
  }

  /** The socket has room. */
  writeMore(): void {
    while (!this.isOver) {
      const { value, done } = this.#pieces.next();
      if (done) this.isOver = true;
      else if (!this.#socket.write(value)) return;
    }
  }

  /** The socket is closed: the system reads none of the pieces any more. */
  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    // If that was the last one, all of them are known to be done with.
    this.#pieces.next();
    this.#pieces.return?.();
  }
}
