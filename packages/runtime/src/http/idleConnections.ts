import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The connections of a server, and since when each is idle. */
export interface Connections {
  /** Call it with each request, before it is handled. */
  begin(request: IncomingMessage, response: ServerResponse): void;
  /** Closes connections without a request in flight for at least this long. */
  closeIdle(forMs: number): void;
}

interface Use {
  /** More than one if the client pipelines. */
  requests: number;
  idleSince: number;
}

export function watchConnections(server: Server): Connections {
  const uses = new Map<Socket, Use>();
  server.on('connection', (socket: Socket) => {
    uses.set(socket, { requests: 0, idleSince: performance.now() });
    socket.once('close', () => uses.delete(socket));
  });
  return {
    begin({ socket }, response) {
      const use = uses.get(socket);
      if (!use) return;
      use.requests++;
      response.once('close', () => {
        use.requests--;
        use.idleSince = performance.now();
      });
    },
    closeIdle(forMs) {
      const before = performance.now() - forMs;
      for (const [socket, { requests, idleSince }] of uses) {
        if (requests === 0 && idleSince <= before) socket.destroySoon();
      }
    },
  };
}
