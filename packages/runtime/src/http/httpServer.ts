import { createServer, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@weighbridge/domain';
import { AppError, type ErrorKind, toHttpError } from '@weighbridge/errors';
import { watchConnections } from './idleConnections.ts';

export interface HttpServerOptions {
  readonly handler: RequestListener;
  readonly host: string;
  readonly port: number;
  /** The setting that chooses the port, for the error when it is taken. */
  readonly portSetting: string;
}

export interface HttpServer {
  readonly url: string;
  readonly port: number;
  /**
   * From now on `/readyz` says that it is shutting down, and each answer ends its connection, so that its client makes the
   * next one elsewhere. Requests are served all the same; resolves after `delayMs`, which load balancers take to hear of it.
   */
  drain(delayMs: number): Promise<void>;
  /** Stops accepting, lets what is in flight end, and cuts what has not ended after `graceMs`. Drains, if nobody did. */
  close(graceMs: number): Promise<void>;
}

const HEADERS_TIMEOUT_MS = 15_000;
/** For the request alone; answers may stream for as long as they like. */
const REQUEST_TIMEOUT_MS = 300_000;
/** Above the usual idle time of load balancers (60 s), so that they close first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
const IDLE_SWEEP_MS = 100;
/** An answer that began before the end was known did not say so: its client may use the connection once more, at once. */
const LINGER_MS = 1_000;
const READYZ = /^\/readyz\/?(?=\?|$)/;
const MAX_HEADER_BYTES = 32 * 1024;

/** Serves a handler, with time-outs on everything that a client can draw out. */
export async function listenHttp(options: HttpServerOptions): Promise<HttpServer> {
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    },
    (request, response) => {
      request.url = originForm(request.url ?? '/');
      connections.begin(request, response);
      if (isDraining) {
        response.shouldKeepAlive = false;
        if (READYZ.test(request.url)) return answerShuttingDown(response);
      }
      options.handler(request, response);
    },
  );
  const connections = watchConnections(server);
  let isDraining = false;
  server.on('clientError', answerParserError);
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
      // Not the HTTP server's own close: it cuts what has been idle for a moment only, with the next request on its way.
      const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
      const sweep = setInterval(() => connections.closeIdle(LINGER_MS), IDLE_SWEEP_MS);
      connections.closeIdle(LINGER_MS);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
      // Ends its timer over connections, of which there are none.
      server.close(() => {});
    },
  };
}

/** A target may name the server too, `http://host/path` (RFC 9112, section 3.2.2): here only the path counts. */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '');
  return path === target || path.startsWith('/') ? path : `/${path}`;
}

function listenError(error: NodeJS.ErrnoException, { host, port, portSetting }: HttpServerOptions): Error {
  if (error.code === 'EADDRINUSE') {
    return new Error(`Port ${port} is taken. Choose another one, for instance ${portSetting}=${port + 1}.`);
  }
  if (error.code === 'EACCES')
    return new Error(
      `Port ${port} needs more rights than this user has. Choose one above 1023 by ${portSetting}.`,
    );
  return new Error(`Can't listen on ${host}:${port}`, { cause: error });
}

/** In the words of the other answers of `/readyz`, whichever app serves them. */
function answerShuttingDown(response: ServerResponse): void {
  const body = JSON.stringify({ status: 'not ready', reason: 'it is shutting down' });
  const headers = { 'content-type': 'application/json; charset=utf-8', 'x-request-id': newId('req') };
  response.writeHead(503, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
}

/** What Node's parser refuses never reaches the handler, and wears the same envelope all the same. */
function answerParserError(error: NodeJS.ErrnoException, socket: Socket): void {
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
  'This is not a valid HTTP/1.1 request.',
];
const PARSER_ERRORS: Record<string, [ErrorKind, string, string]> = {
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    'headers_too_large',
    `The request's headers are larger than ${MAX_HEADER_BYTES} bytes together.`,
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['invalid_request', 'request_timeout', 'The request did not arrive in time.'],
};
