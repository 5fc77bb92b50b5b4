import { createServer, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@weighbridge/domain';
import { AppError, type ErrorKind, toHttpError } from '@weighbridge/errors';
import { watchConnections } from './idleConnections.ts';
import { closeIfUnread, holdChunks } from './unreadBody.ts';

export interface HttpServerOptions {
  readonly handler: RequestListener;
  readonly host: string;
  readonly port: number;
  /** The setting of the port, for the error if the port is in use. */
  readonly portSetting: string;
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

const HEADERS_TIMEOUT_MS = 15_000;
/** For receiving the request. A response may stream for any time. */
const REQUEST_TIMEOUT_MS = 300_000;
/** Above the usual idle time of load balancers (60 s), so that they close first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
const IDLE_SWEEP_MS = 100;
/** A response that began before draining promised to keep the connection: the client may send one more request on it. */
const LINGER_MS = 1_000;
const READYZ = /^\/readyz\/?(?=\?|$)/;
const MAX_HEADER_BYTES = 32 * 1024;

/** Serves a handler, with a time-out for everything that a slow client can delay. */
export async function listenHttp(options: HttpServerOptions): Promise<HttpServer> {
  const serve: RequestListener = (request, response) => {
    request.url = originForm(request.url ?? '/');
    connections.begin(request, response);
    closeIfUnread(request, response);
    holdChunks(request, response);
    if (isDraining) {
      response.shouldKeepAlive = false;
      if (READYZ.test(request.url)) return sendShuttingDown(response);
    }
    options.handler(request, response);
  };
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    },
    serve,
  );
  // `100 Continue` is left to whoever reads the body, once the request's head was checked.
  server.on('checkContinue', serve);
  const connections = watchConnections(server);
  let isDraining = false;
  server.on('clientError', sendParserError);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, options)));
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async drain(delayMs) {
      isDraining = true;
      if (delayMs > 0) await sleep(delayMs);
    },
    async close(graceMs) {
      isDraining = true;
      // The HTTP server's own close would cut a connection that became idle a moment ago, with a request on its way.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
      const sweep = setInterval(() => connections.closeIdle(LINGER_MS), IDLE_SWEEP_MS);
      connections.closeIdle(LINGER_MS);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
      // Stops its timer; there are no connections any more.
      server.close(() => {});
    },
  };
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

/** A request that Node's parser rejects never reaches the handler. It gets the same error body. */
function sendParserError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable) return void socket.destroy();
  const [kind, code, message] = PARSER_ERRORS[error.code ?? ''] ?? MALFORMED;
  const requestId = newId('req');
  const { status, body } = toHttpError(new AppError(kind, code, message), requestId);
  const text = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'connection: close',
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(text)}`,
    `x-request-id: ${requestId}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
}

const MALFORMED: [ErrorKind, string, string] = [
  'invalid_request',
  'malformed_request',
  'The request is not valid HTTP/1.1.',
];
const PARSER_ERRORS: Record<string, [ErrorKind, string, string]> = {
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    'headers_too_large',
    `The request's headers are larger than ${MAX_HEADER_BYTES} bytes in total.`,
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['invalid_request', 'request_timeout', 'The request was not received in time.'],
};
