import type { Server } from 'node:net';

/**
 * Listens on a free port of the loopback interface; resolves with the port. By default the kernel queues 511 connections and
 * resets the others, of which a thousand callers at once notice.
 */
export async function listenLocally(server: Server): Promise<number> {
  await new Promise<void>((resolve) =>
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, resolve),
  );
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('it listens on a port');
  return address.port;
}
