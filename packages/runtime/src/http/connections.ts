import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { watchHalfClosed } from './halfClosed.ts';
import { HeldHeads } from './heldHeads.ts';
import { SlowUploads } from './slowUploads.ts';

export interface ConnectionLimits {
  /** Further connections are closed at once. */
  readonly maxConnections: number;
  /** What the heads of all requests that are not answered may take together, and those that are arriving as much again. */
  readonly maxHeadBytes: number;
  /** How long the head of a request may take. */
  readonly headersTimeoutMs: number;
  /** How long a body may take, besides the time for its bytes at `MIN_BYTES_PER_SECOND`. */
  readonly bodyTimeoutMs: number;
  /** How long a connection is kept without a request, also before its first one. */
  readonly keepAliveMs: number;
}

export interface ConnectionEvents {
  /** The body of a request takes too long; called again while it goes on. */
  readonly onSlowUpload: (socket: Socket) => void;
  /** A connection was closed at once. */
  readonly onRefused: () => void;
}

/** The connection of a client. */
export interface Connection {
  /** Those that are owed or under way, in the order of their requests: more than one if the client pipelines. */
  readonly responses: ServerResponse[];
  idleSince: number;
  /** The bytes read when it became idle: later ones are of the head of its next request. */
  readBytes: number;
  /** When its last request began. */
  requestedAt: number;
  /** It got its last answer; what it still sends is discarded. */
  isRefused: boolean;
}

const SWEEP_MS = 500;
/** Requests of one connection that wait for their answers. Clients that pipeline at all send a few. */
export const MAX_PIPELINED = 32;

/** The connections of a server: what each is owed, and since when each is idle. */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  readonly #limits: ConnectionLimits;
  readonly #uploads: SlowUploads;
  readonly #heads: HeldHeads;
  readonly #sweeping: NodeJS.Timeout;
  readonly #onRefused: () => void;

  constructor(server: Server, limits: ConnectionLimits, events: ConnectionEvents) {
    this.#limits = limits;
    this.#heads = new HeldHeads(limits.maxHeadBytes);
    this.#uploads = new SlowUploads(limits.bodyTimeoutMs, events.onSlowUpload);
    this.#onRefused = events.onRefused;
    server.on('connection', this.#onConnection);
    this.#sweeping = setInterval(this.#sweep, SWEEP_MS).unref();
  }

  get count(): number {
    return this.#open.size;
  }

  of(socket: Socket): Connection | undefined {
    return this.#open.get(socket);
  }

  /**
   * Call it with each request, before it is handled. `closed`: the connection pipelined too many requests, and is closed;
   * `no_room`: the head of this request does not fit.
   */
  begin(request: IncomingMessage, response: ServerResponse): 'closed' | 'no_room' | undefined {
    const { socket } = request;
    const connection = this.#open.get(socket);
    if (!connection) return undefined;
    const { responses } = connection;
    if (responses.length >= MAX_PIPELINED) {
      // A refusal would have to wait for its turn, and all requests behind it would be held until then.
      socket.destroy();
      return 'closed';
    }
    const headBytes = this.#heads.take(request);
    responses.push(response);
    connection.requestedAt = performance.now();
    response.on('close', () => {
      const at = responses.indexOf(response);
      // One that never had the socket may be told twice.
      if (at < 0) return;
      if (at === 0) responses.shift();
      else responses.splice(at, 1);
      connection.idleSince = performance.now();
      connection.readBytes = socket.bytesRead;
      if (headBytes !== undefined) this.#heads.giveBack(headBytes);
    });
    return headBytes === undefined ? 'no_room' : undefined;
  }

  /** Closes connections without a request in flight for at least this long. */
  closeIdle(forMs: number): void {
    const before = performance.now() - forMs;
    for (const [socket, { responses, idleSince }] of this.#open) {
      if (responses.length === 0 && idleSince <= before) socket.destroySoon();
    }
  }

  stop(): void {
    clearInterval(this.#sweeping);
  }

  readonly #onConnection = (socket: Socket): void => {
    if (this.#open.size >= this.#limits.maxConnections) {
      this.#onRefused();
      socket.destroy();
      return;
    }
    const connection: Connection = {
      responses: [],
      idleSince: performance.now(),
      readBytes: 0,
      requestedAt: 0,
      isRefused: false,
    };
    this.#open.set(socket, connection);
    socket.once('end', () => {
      const { responses, requestedAt, isRefused } = connection;
      if (!isRefused) watchHalfClosed(socket, responses, performance.now() - requestedAt);
    });
    socket.once('close', () => {
      this.#open.delete(socket);
      closeQueued(connection);
    });
  };

  /** What arrives may be a head, whose time Node measures; or line ends before one, which begin no time. */
  #keptMs(isArriving: boolean): number {
    const { keepAliveMs, headersTimeoutMs } = this.#limits;
    return isArriving ? keepAliveMs + headersTimeoutMs : keepAliveMs;
  }

  readonly #sweep = (): void => {
    const now = performance.now();
    const arriving: { readonly socket: Socket; readonly bytes: number }[] = [];
    for (const [socket, connection] of this.#open) {
      const { responses } = connection;
      const last = responses[responses.length - 1];
      if (connection.isRefused) continue;
      if (last) {
        if (!last.req.complete) this.#uploads.check(last.req, socket, now);
        continue;
      }
      const bytes = socket.bytesRead - connection.readBytes;
      if (now - connection.idleSince >= this.#keptMs(bytes > 0)) socket.destroy();
      else if (bytes > 0) arriving.push({ socket, bytes });
    }
    for (const { socket } of this.#heads.overdue(arriving)) {
      this.#onRefused();
      socket.destroy();
    }
  };
}

/** Node closes only the response that has the socket; those behind it would never learn that their client has left. */
function closeQueued({ responses }: Connection): void {
  for (const response of [...responses]) {
    if (response.socket || response.destroyed) continue;
    response.destroy();
    response.emit('close');
  }
}
