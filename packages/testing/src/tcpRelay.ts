import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP relay to a server. A test can stall it and cut its connections. */
export interface TcpRelay {
  /** The server's address with the relay's host and port. */
  readonly url: string;
  /** Pauses all connections; bytes wait until `resume`. */
  stall(): void;
  /** As `stall`, but for connections from now on: a host that is gone, and another one in its place. */
  hang(): void;
  /** Closes all connections, and each new one at once. */
  cut(): void;
  /** Relays again, waiting bytes first. */
  resume(): void;
  close(): Promise<void>;
}

export async function startTcpRelay(target: string): Promise<TcpRelay> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let state: 'open' | 'stalled' | 'cut' = 'open';

  const server = createServer((near) => {
    if (state === 'cut') return void near.destroy();
    const far = connect(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes) => to.write(bytes));
      from.on('error', () => {});
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      if (state === 'stalled') from.pause();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);

  const cut = () => {
    state = 'cut';
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: url.href,
    stall() {
      state = 'stalled';
      for (const socket of sockets) socket.pause();
    },
    hang() {
      for (const socket of sockets) socket.pause();
    },
    cut,
    resume() {
      state = 'open';
      for (const socket of sockets) socket.resume();
    },
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
