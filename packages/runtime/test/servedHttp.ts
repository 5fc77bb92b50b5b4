import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach } from 'vitest';
import { type HttpServer, type HttpServerOptions, listenHttp } from '../src/http/httpServer.ts';

let server: HttpServer | undefined;
afterEach(() => close());

/** Serves on loopback until the end of the test. */
export async function serve(
  handler: RequestListener,
  options: Partial<HttpServerOptions> = {},
): Promise<void> {
  const fixed = { handler, host: '127.0.0.1', port: 0, portSetting: 'PORT', lingerMs: 200 };
  server = await listenHttp({ ...fixed, ...options });
}

export async function close(): Promise<void> {
  await server?.close(0);
}

/** A client's end of a connection, and all that came on it. */
export async function dial() {
  const socket: Socket = connect(server?.port ?? 0, '127.0.0.1').setEncoding('latin1');
  let text = '';
  let error: NodeJS.ErrnoException | undefined;
  socket.on('data', (piece) => {
    text += piece;
  });
  socket.on('error', (found) => {
    error = found;
  });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  await once(socket, 'connect');
  return { socket, closed, text: () => text, error: () => error };
}
