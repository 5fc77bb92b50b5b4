import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Dispatcher, Pool } from 'undici';
import { announce } from '../shared/announce.ts';

// The minimal proxy in Node: `http` in front, undici behind. It passes bytes on as they come and inspects nothing.

const [vendorUrl = ''] = process.argv.slice(2);
const pool = new Pool(vendorUrl, { connections: null, pipelining: 1 });

class Pipe implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#response.once('close', () => {
      if (!this.#response.writableFinished) controller.abort(new Error('the client disconnected'));
    });
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#response.writeHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#response.write(chunk)) return;
    controller.pause();
    this.#response.once('drain', () => controller.resume());
  }

  onResponseEnd(): void {
    this.#response.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#response.headersSent) this.#response.destroy(error);
    else this.#response.writeHead(502).end();
  }
}

/** Up to this size, collecting a body costs less than passing it on in pieces. */
const COLLECTED_BYTES = 64 * 1024;

function pass(request: IncomingMessage, response: ServerResponse): void {
  const { method = 'GET', url: path = '/' } = request;
  // undici writes these headers itself.
  const { host: _host, connection: _connection, ...headers } = request.headers;
  const dispatch = (body: Buffer | IncomingMessage) =>
    pool.dispatch({ method: method as Dispatcher.HttpMethod, path, headers, body }, new Pipe(response));
  if (!(Number(headers['content-length']) <= COLLECTED_BYTES)) return void dispatch(request);
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => dispatch(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)));
}

const server = createServer(pass);
server.keepAliveTimeout = 600_000;
announce(server);
