import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@weighbridge/domain';
import { AppError, type HttpError, toHttpError } from '@weighbridge/errors';
import { type Connection, Connections } from './connections.ts';
import { defaultHeadBytes, noRoomForHead } from './heldHeads.ts';
import {
  BODY_TIMEOUT,
  isParserError,
  MAX_HEADER_BYTES,
  MAX_HEADER_LINES,
  parserError,
  protocolRefusal,
} from './protocolErrors.ts';
import { RequestMessage } from './requestMessage.ts';
import { closeIfUnread, holdChunks } from './unreadBody.ts';

export interface HttpLimits {
  /** How long the head of a request may take. */
  readonly headersTimeoutMs: number;
  /** How long a body may take, besides the time for its bytes at a low pace. */
  readonly bodyTimeoutMs: number;
  /** Further connections are closed at once. */
  readonly maxConnections: number;
}

interface ConnectionMetrics {
  gauge(name: string, help: string, read: () => number): void;
  counter(name: string, help: string, labels: readonly never[]): { inc(): void };
}

export interface HttpServerOptions extends Partial<HttpLimits> {
  readonly handler: RequestListener;
  readonly host: string;
  readonly port: number;
  /** The setting of the port, for the error if the port is in use. */
  readonly portSetting: string;
  /** What the heads of all requests that are not answered may take together. Default: a sixteenth of the memory, at least 32 MiB. */
  readonly maxHeadBytes?: number;
  /** How long a client that is refused may take to read the answer, before its connection is closed. */
  readonly lingerMs?: number;
  /**
   * How long each response promises to keep its connection (`Keep-Alive: timeout=`). No idle connection is closed before, also
   * when the process drains: a client that heeds it never sends on a connection that is being closed.
   */
  readonly promisedIdleMs?: number;
  /** How long connections are kept without a request. More than is promised: not every client heeds that. */
  readonly keepAliveMs?: number;
  /** The response for a request that is refused by its head or its framing. Default: `toHttpError`. */
  readonly errorResponse?: (error: AppError, requestId: string, url: string) => HttpError<object>;
  /** Where connections are counted; undefined: nowhere. */
  readonly metrics?: ConnectionMetrics | undefined;
}

export interface HttpServer {
  readonly url: string;
  readonly port: number;
  /**
   * From now on `/readyz` is 503, and each response closes its connection, so that the client connects elsewhere. Requests
   * are still served. Resolves after `delayMs`, the time for load balancers to notice.
   */
  drain(delayMs: number): Promise<void>;
  /** Stops accepting connections, and waits for requests in flight, at most for `graceMs`. Drains first if needed. */
  close(graceMs: number): Promise<void>;
}

/** Connections that wait to be accepted; the kernel caps it. Of a burst beyond the default, 511, it drops some for a second. */
const BACKLOG = 65_535;
/** For receiving the request at any pace. A response may stream for any time. */
const REQUEST_TIMEOUT_MS = 300_000;
/** How often Node looks for requests that are not received in time. */
const TIMEOUT_CHECK_MS = 500;
const IDLE_SWEEP_MS = 100;
/** Without balancers, what stops shall end soon: this long, a connection waits for a request that is on its way. */
const LINGER_MS = 1_000;
const READYZ = /^\/readyz\/?(?=\?|$)/;
const ALL_METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';

/** The limits of a server whose app has no settings for them. */
export const DEFAULT_HTTP_LIMITS = {
  headersTimeoutMs: 15_000,
  bodyTimeoutMs: 20_000,
  maxConnections: 10_000,
  lingerMs: 2_000,
  // Not below the idle time of Python's SDKs, 5 s.
  promisedIdleMs: 5_000,
  // Above the usual idle time of load balancers (60 s), so that they close first.
  keepAliveMs: 65_000,
};
type Options = HttpServerOptions & typeof DEFAULT_HTTP_LIMITS & { readonly maxHeadBytes: number };

/** Serves a handler, with a time-out for everything that a slow client can delay. */
export async function listenHttp(given: HttpServerOptions): Promise<HttpServer> {
  const options: Options = { ...DEFAULT_HTTP_LIMITS, maxHeadBytes: defaultHeadBytes(), ...given };
  const serve: RequestListener = (request, response) => {
    request.url = originForm(request.url ?? '/');
    const held = connections.begin(request, response);
    if (held === 'closed') return;
    promisesIdle(response)._keepAliveTimeout = options.promisedIdleMs;
    closeIfUnread(request, response, options.lingerMs);
    holdChunks(request, response);
    const refusal = held === 'no_room' ? noRoomForHead() : protocolRefusal(request);
    if (refusal) return sendRefusal(options, refusal, request, response);
    if (request.url === '*' && request.method === 'OPTIONS') {
      return void response.writeHead(204, { allow: ALL_METHODS }).end();
    }
    if (isDraining) {
      response.shouldKeepAlive = false;
      if (READYZ.test(request.url)) return sendShuttingDown(response);
    }
    options.handler(request, response);
  };
  const server = createParser(options, serve);
  const connections = new Connections(server, options, {
    onSlowUpload: (socket) => server.emit('clientError', BODY_TIMEOUT, socket),
    onRefused: countRefused(options),
  });
  server.on('clientError', (error, socket) => endConnection(options, error, socket as Socket, connections));
  server.on('connect', (request, socket) => refuseTunnel(options, request, socket as Socket));
  let isDraining = false;
  let lingerMs = LINGER_MS;
  options.metrics?.gauge('weighbridge_connections', 'Open connections of clients.', () => connections.count);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, options)));
    const { port, host } = options;
    server.listen({ port, host, backlog: BACKLOG }, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async drain(delayMs) {
      isDraining = true;
      if (delayMs <= 0) return;
      lingerMs = Math.max(LINGER_MS, options.promisedIdleMs);
      await sleep(delayMs);
    },
    async close(graceMs) {
      isDraining = true;
      // The HTTP server's own close would cut a connection that became idle a moment ago, with a request on its way.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
      const sweep = setInterval(() => connections.closeIdle(lingerMs), IDLE_SWEEP_MS);
      connections.closeIdle(lingerMs);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
      connections.stop();
      // Stops its timer; there are no connections any more.
      server.close(() => {});
    },
  };
}

/** What Node writes as the `Keep-Alive` header. */
interface PromisesIdle {
  /** In milliseconds. */
  _keepAliveTimeout: number;
}

function promisesIdle(response: ServerResponse): PromisesIdle {
  return response as unknown as PromisesIdle;
}

/** Removes the server from a target in absolute form, `http://host/path` (RFC 9112, section 3.2.2). */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '');
  return path === target || path.startsWith('/') ? path : `/${path}`;
}

function listenError(error: NodeJS.ErrnoException, { host, port, portSetting }: HttpServerOptions): Error {
  if (error.code === 'EADDRINUSE') {
    return new Error(`Port ${port} is in use. Choose another one, such as ${portSetting}=${port + 1}.`);
  }
  if (error.code === 'EACCES')
    return new Error(`This user may not listen on port ${port}. Set ${portSetting} to a port above 1023.`);
  return new Error(`Can't listen on ${host}:${port}`, { cause: error });
}

/** In the form of the other responses of `/readyz`. */
function sendShuttingDown(response: ServerResponse): void {
  const body = JSON.stringify({ status: 'not ready', reason: 'shutting down' });
  const headers = { 'content-type': 'application/json; charset=utf-8', 'x-request-id': newId('req') };
  response.writeHead(503, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
}

/**
 * The connection of a request that can't be read goes. It gets an answer only where that can't be taken for the answer to
 * another request: if nothing is owed but the answer to the request that is being sent.
 */
function endConnection(
  options: Options,
  error: NodeJS.ErrnoException,
  socket: Socket,
  connections: Connections,
): void {
  const connection = connections.of(socket);
  if (!connection || !isParserError(error) || !socket.writable) return void socket.destroy();
  // Ignore what a refused client still sends; it reads its response.
  if (connection.isRefused) return;
  // It was opened in advance and is idle, as one between two requests; its client may be about to send.
  if (socket.bytesRead === 0 && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return;
  if (socket.bytesRead === 0 || !mayBeAnswered(connection)) return void socket.destroy();
  connection.isRefused = true;
  const [response] = connection.responses;
  writeError(options, parserError(error), socket, response?.req.url ?? '/');
  // The rest of its body would make it a request after all.
  if (response) setImmediate(() => socket.pause());
}

function mayBeAnswered({ responses }: Connection): boolean {
  const [response] = responses;
  if (!response) return true;
  return responses.length === 1 && !response.req.complete && !response.headersSent;
}

/** CONNECT asks for a tunnel to a host; the connection is no longer a server's. */
function refuseTunnel(options: Options, _request: IncomingMessage, socket: Socket): void {
  const headers = { allow: ALL_METHODS };
  const message = `The method CONNECT is not allowed. Use ${ALL_METHODS}.`;
  const error = new AppError('method_not_allowed', 'method_not_allowed', message, { headers });
  socket.on('error', () => {});
  writeError(options, error, socket, '/');
}

/** Writes an error to a connection without a response object, and closes it once the client had time to read it. */
function writeError(options: Options, error: AppError, socket: Socket, url: string): void {
  const { status, headers, body } = errorOf(options, error, url);
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('\r\n')}\r\n\r\n${body}`);
  const timer = setTimeout(() => socket.destroy(), options.lingerMs).unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Answers a request that is refused by its head; nothing more is read on its connection. */
function sendRefusal(
  options: Options,
  error: AppError,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const { status, headers, body } = errorOf(options, error, request.url ?? '/');
  response.shouldKeepAlive = false;
  response.writeHead(status, headers).end(body);
}

function errorOf({ errorResponse = toHttpError }: Options, error: AppError, url: string) {
  const requestId = newId('req');
  const { status, headers, body } = errorResponse(error, requestId, url);
  const text = JSON.stringify(body);
  const all = {
    ...headers,
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(text)),
    'x-request-id': requestId,
  };
  return { status, headers: all, body: text };
}

function createParser(options: Options, serve: RequestListener): Server {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: options.headersTimeoutMs,
      requestTimeout: Math.max(REQUEST_TIMEOUT_MS, options.headersTimeoutMs),
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      // `Connections` closes idle connections: Node would set a timer after each response, and end it at the next request.
      keepAliveTimeout: 0,
      IncomingMessage: RequestMessage,
      // Refused here, with a body that says so.
      requireHostHeader: false,
    },
    serve,
  );
  // One more than is allowed, so that it is seen.
  server.maxHeadersCount = MAX_HEADER_LINES + 1;
  // A client that has sent its request may end its side, and is answered all the same.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  // `100 Continue` is left to whoever reads the body, once the request's head was checked.
  server.on('checkContinue', serve);
  server.on('checkExpectation', serve);
  return server;
}

function countRefused({ metrics }: Options): () => void {
  const help = 'Connections closed at once because there were too many.';
  const refused = metrics?.counter('weighbridge_connections_refused_total', help, []);
  return () => refused?.inc();
}
