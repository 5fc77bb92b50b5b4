import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The connections of a server, and how long each has been without a request. */
export interface Connections {
  /** To be called with each request, before it is handled. */
  begin(request: IncomingMessage, response: ServerResponse): void;
  /** Ends those that have had no request under way for at least so long. */
  closeIdle(forMs: number): void;
}

interface Use {
  /** Several where a client sends the next before it has the answer. */
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
