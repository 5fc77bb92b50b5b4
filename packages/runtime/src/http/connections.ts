import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { watchHalfClosed } from './halfClosed.ts';
import { SlowUploads } from './slowUploads.ts';

export interface ConnectionLimits {
  /** Further connections are closed at once. */
  readonly maxConnections: number;
  /** How long a body may take, besides the time for its bytes at `MIN_BYTES_PER_SECOND`. */
  readonly bodyTimeoutMs: number;
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
  /** When its last request began. */
  requestedAt: number;
  /** It got its last answer; what it still sends is discarded. */
  isRefused: boolean;
}

const SWEEP_MS = 500;

/** The connections of a server: what each is owed, and since when each is idle. */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  readonly #limits: ConnectionLimits;
  readonly #uploads: SlowUploads;
  readonly #sweeping: NodeJS.Timeout;
  readonly #onRefused: () => void;

  constructor(server: Server, limits: ConnectionLimits, events: ConnectionEvents) {
    this.#limits = limits;
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

  /** To be called with each request, before it is handled. */
  begin({ socket }: IncomingMessage, response: ServerResponse): void {
    const connection = this.#open.get(socket);
    if (!connection) return;
    const { responses } = connection;
    responses.push(response);
    connection.requestedAt = performance.now();
    response.once('close', () => {
      if (responses[0] === response) responses.shift();
      else responses.splice(responses.indexOf(response), 1);
      connection.idleSince = performance.now();
    });
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

  readonly #sweep = (): void => {
    const now = performance.now();
    for (const [socket, connection] of this.#open) {
      const { responses } = connection;
      const last = responses[responses.length - 1];
      if (!last || connection.isRefused) continue;
      if (!last.req.complete) this.#uploads.check(last.req, socket, now);
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
