import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { RequestBody } from '../src/formats/requestBody.ts';
import type { HttpRequest, ResponseController, ResponseHandler } from '../src/upstream/http1/httpCall.ts';
import type { HttpPool } from '../src/upstream/http1/httpPool.ts';

/** A server that answers raw bytes. */
export interface RawServer {
  readonly port: number;
  readonly sockets: Set<Socket>;
  /** So far. */
  connections: number;
  /** What arrived, by connection. */
  readonly received: string[];
  close(): void;
}

/** `onData` is called with each read, and with all that the connection has read so far. */
export async function startRawServer(
  onData: (socket: Socket, text: string, at: number) => void,
  create: (onConnection: (socket: Socket) => void) => Server = (onConnection) => createServer(onConnection),
): Promise<RawServer> {
  const server = create((socket) => {
    const at = raw.connections++;
    raw.received[at] = '';
    raw.sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => raw.sockets.delete(socket));
    socket.on('data', (bytes: Buffer) => {
      raw.received[at] += bytes.toString('latin1');
      onData(socket, raw.received[at] ?? '', at);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const raw: RawServer = {
    port: (server.address() as AddressInfo).port,
    sockets: new Set(),
    connections: 0,
    received: [],
    close: () => {
      server.close();
      for (const socket of raw.sockets) socket.destroy();
    },
  };
  return raw;
}

/** One call, and what was told of it. */
export class Told implements ResponseHandler {
  controller: ResponseController | undefined;
  status: number | undefined;
  headers: object = {};
  text = '';
  isOver = false;
  error: Error | undefined;
  onStart: (controller: ResponseController) => void = () => {};
  onData: (controller: ResponseController) => void = () => {};
  readonly over: Promise<this>;
  #resolve: (told: this) => void = () => {};

  constructor() {
    this.over = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  onRequestStart(controller: ResponseController): void {
    this.onStart(controller);
  }

  onResponseStart(_controller: ResponseController, status: number, headers: object): void {
    this.#assertOpen();
    this.status = status;
    this.headers = headers;
  }

  onResponseData(controller: ResponseController, chunk: Buffer): void {
    this.#assertOpen();
    this.text += chunk.toString('latin1');
    this.onData(controller);
  }

  onResponseEnd(): void {
    this.#end();
  }

  onResponseError(_controller: ResponseController, error: Error): void {
    this.error = error;
    this.#end();
  }

  #end(): void {
    this.#assertOpen();
    this.isOver = true;
    this.#resolve(this);
  }

  #assertOpen(): void {
    if (this.isOver) throw new Error('told after the end');
  }
}

export function call(pool: HttpPool, fields: Partial<HttpRequest> = {}, told = new Told()): Told {
  const request = { method: 'POST' as const, path: '/', headers: [], body: bodyOf('{}'), ...fields };
  told.controller = pool.send(request, told);
  return told;
}

export function bodyOf(...pieces: string[]): RequestBody {
  return new RequestBody(pieces.map((piece) => Buffer.from(piece, 'latin1')));
}

export const answerOf = (body: string, more = '') =>
  `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n${more}\r\n${body}`;
