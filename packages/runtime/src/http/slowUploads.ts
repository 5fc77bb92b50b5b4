import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** A body that arrives at this pace may take any time within the limit for a whole request. */
const MIN_BYTES_PER_SECOND = 8 * 1024;

interface Upload {
  /** When it began, less the time in which no one read it. */
  since: number;
  readonly bytesBefore: number;
  checkedAt: number;
}

/** Finds bodies that hold a connection by arriving byte by byte. */
export class SlowUploads {
  readonly #timeoutMs: number;
  readonly #onSlow: (socket: Socket) => void;
  readonly #uploads = new WeakMap<IncomingMessage, Upload>();

  constructor(timeoutMs: number, onSlow: (socket: Socket) => void) {
    this.#timeoutMs = timeoutMs;
    this.#onSlow = onSlow;
  }

  /** To be called again and again while a request's body is incomplete: the first call begins its time. */
  check(request: IncomingMessage, socket: Socket, now: number): void {
    const upload = this.#uploads.get(request);
    if (!upload) {
      this.#uploads.set(request, { since: now, bytesBefore: socket.bytesRead, checkedAt: now });
      return;
    }
    // The client is not slow if this service does not read.
    if (socket.isPaused() || request.isPaused()) upload.since += now - upload.checkedAt;
    upload.checkedAt = now;
    const received = socket.bytesRead - upload.bytesBefore;
    const allowedMs = this.#timeoutMs + (received / MIN_BYTES_PER_SECOND) * 1_000;
    if (now - upload.since > allowedMs) this.#onSlow(socket);
  }
}
