import { createServer, type RequestListener, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { newId } from '@weighbridge/domain';
import { AppError, type ErrorKind, toHttpError } from '@weighbridge/errors';

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
  /** Stops accepting, lets what is in flight end, and cuts what has not ended after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

const HEADERS_TIMEOUT_MS = 15_000;
/** For the request alone; answers may stream for as long as they like. */
const REQUEST_TIMEOUT_MS = 300_000;
/** Above the usual idle time of load balancers (60 s), so that they close first. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
const IDLE_SWEEP_MS = 100;
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
      options.handler(request, response);
    },
  );
  server.on('clientError', answerParserError);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, options)));
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // A connection that becomes idle only now would be kept alive for the next request otherwise.
      const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearInterval(sweep);
      clearTimeout(cut);
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
