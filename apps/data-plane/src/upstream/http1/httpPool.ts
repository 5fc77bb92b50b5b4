import { isIP, type LookupFunction } from 'node:net';
import { Connection, type ConnectionOwner } from './connection.ts';
import { HttpCall, type HttpRequest, type ResponseController, type ResponseHandler } from './httpCall.ts';
import { HttpClientError } from './httpClientError.ts';
import { SocketOpener } from './openSocket.ts';
import { requestHead } from './requestHead.ts';

/** Servers close after 5 seconds and more; a request that meets the close is lost. */
const REST_MS = 4_000;
const MAX_REST_MS = 600_000;
/** Before the time that a server says. */
const REST_MARGIN_MS = 2_000;
const MAX_IDLE = 1_024;
const MIN_TICK_MS = 5;
const MAX_TICK_MS = 500;
const TICKS_PER_TIMEOUT = 8;
/** Of a `keep-alive` header. */
const TIMEOUT = /timeout=(\d{1,9})/;

export interface HttpPoolOptions {
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly chunkTimeoutMs: number;
  /** Resolves names, in place of the system. */
  readonly lookup?: LookupFunction;
}

/**
 * The connections to one origin, over HTTP/1.1, kept alive. Each call has one connection for itself, and there is no limit of
 * them. Nothing is retried.
 */
export class HttpPool implements ConnectionOwner {
  tick = 0;
  readonly timeoutTicks: ConnectionOwner['timeoutTicks'];
  readonly #host: string;
  readonly #opener: SocketOpener;
  readonly #tickMs: number;
  readonly #connections = new Set<Connection>();
  /** May serve a call; the last one has been idle for the shortest time. */
  readonly #idle: Connection[] = [];
  /** Idle since this turn: what the server sent behind its answer is not read yet. */
  readonly #idleLater: Connection[] = [];
  /** Get a connection at the end of this turn. */
  #calls: HttpCall[] = [];
  #hasTurn = false;
  #sweeper: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    { protocol, hostname, host, port }: URL,
    { connectTimeoutMs, firstByteTimeoutMs, chunkTimeoutMs, lookup }: HttpPoolOptions,
  ) {
    const isTls = protocol === 'https:';
    this.#host = host;
    const address = hostname.replace(/^\[|\]$/g, '');
    this.#opener = new SocketOpener({
      isTls,
      hostname: isIP(address) ? address : hostname,
      port: Number(port || (isTls ? 443 : 80)),
      lookup,
    });
    const shortest = Math.min(connectTimeoutMs, firstByteTimeoutMs, chunkTimeoutMs);
    this.#tickMs = Math.min(MAX_TICK_MS, Math.max(MIN_TICK_MS, Math.floor(shortest / TICKS_PER_TIMEOUT)));
    // The first tick may come at once.
    const ticks = (ms: number) => Math.ceil(ms / this.#tickMs) + 1;
    this.timeoutTicks = {
      connect: ticks(connectTimeoutMs),
      head: ticks(firstByteTimeoutMs),
      body: ticks(chunkTimeoutMs),
    };
  }

  /** `handler` is told everything; also, before this returns, that the request can't be sent. */
  send(request: HttpRequest, handler: ResponseHandler): ResponseController {
    let head = '';
    let failure: Error | undefined;
    try {
      head = requestHead(request, this.#host);
      if (this.#isClosed) throw new HttpClientError('pool_closed', 'the connections were closed');
    } catch (error) {
      failure = error as Error;
    }
    const call = new HttpCall(head, request.body, handler);
    if (failure) call.fail(failure);
    else {
      this.#calls.push(call);
      this.#endTurn();
    }
    return call;
  }

  /** Serves calls that were begun, and no others. */
  close(): void {
    this.#isClosed = true;
    for (const connection of [...this.#idle, ...this.#idleLater]) closeIdle(connection);
  }

  /** Ends all calls. */
  destroy(): void {
    this.#isClosed = true;
    const error = new HttpClientError('pool_closed', 'the connections were closed');
    for (const call of this.#calls) call.fail(error);
    for (const connection of this.#connections) connection.fail(error);
  }

  onIdle(connection: Connection): void {
    const idleMs = idleMsOf(connection);
    if (this.#isClosed || idleMs <= 0) {
      closeIdle(connection);
      return;
    }
    connection.idleUntilMs = performance.now() + idleMs;
    this.#idleLater.push(connection);
    this.#endTurn();
  }

  onClose(connection: Connection): void {
    this.#connections.delete(connection);
    remove(this.#idle, connection);
    remove(this.#idleLater, connection);
    if (this.#connections.size > 0) return;
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  /**
   * Calls are sent after everything was read that had arrived when their turn began. So a connection that the server closed, or on which
   * it sent what was not asked for, is known as such.
   */
  #endTurn(): void {
    if (this.#hasTurn) return;
    this.#hasTurn = true;
    setImmediate(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#hasTurn = false;
    const calls = this.#calls;
    this.#calls = [];
    let spare = this.#idleLater.length;
    for (const call of calls) {
      if (call.isOver) continue;
      if (this.#idle.length > 0 || spare-- <= 0) this.#connect(call);
      // A turn is shorter than connecting.
      else this.#calls.push(call);
    }
    this.#idle.push(...this.#idleLater.splice(0));
    if (this.#calls.length > 0) this.#endTurn();
    while (this.#idle.length > MAX_IDLE) closeIdle(this.#idle[0] as Connection);
  };

  #connect(call: HttpCall): void {
    const connection = this.#takeResting();
    if (connection) {
      connection.serve(call);
      return;
    }
    try {
      this.#connections.add(new Connection(this, this.#opener, call));
      this.#sweeper ??= setInterval(this.#sweep, this.#tickMs).unref();
    } catch (error) {
      call.connection = undefined;
      call.fail(error as Error);
    }
  }

  #takeResting(): Connection | undefined {
    const now = performance.now();
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection || connection.idleUntilMs > now) return connection;
      closeIdle(connection);
    }
  }

  readonly #sweep = (): void => {
    this.tick++;
    for (const connection of this.#connections) connection.checkDeadline();
    const now = performance.now();
    for (const connection of this.#idle.filter(({ idleUntilMs }) => idleUntilMs <= now + this.#tickMs)) {
      closeIdle(connection);
    }
  };
}

function closeIdle(connection: Connection): void {
  connection.fail(new HttpClientError('connection_closed', 'the connection was not used'));
}

/** How long the server keeps the connection, as far as it says. */
function idleMsOf({ headers }: Connection): number {
  const said = TIMEOUT.exec(String(headers?.['keep-alive'] ?? ''))?.[1];
  return said === undefined ? REST_MS : Math.min(Number(said) * 1_000 - REST_MARGIN_MS, MAX_REST_MS);
}

function remove(connections: Connection[], connection: Connection): void {
  const at = connections.lastIndexOf(connection);
  if (at >= 0) connections.splice(at, 1);
}
