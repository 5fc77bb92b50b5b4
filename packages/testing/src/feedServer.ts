import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on loopback that a feed of prices is fetched from. */
export interface FeedServer {
  readonly url: string;
  /** The headers of each request so far. */
  readonly requests: IncomingHttpHeaders[];
  /** Serves this document, or handles requests by this listener. */
  serve(content: unknown): void;
  close(): Promise<void>;
}

/** Serves with an etag for each document, as the hosts of such lists do. */
export async function startFeedServer(): Promise<FeedServer> {
  let listener: RequestListener = (_request, response) => response.writeHead(404).end();
  const requests: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    requests.push(request.headers);
    listener(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let served = 0;
  return {
    url: `http://127.0.0.1:${port}/prices.json?token=secret-of-the-feed`,
    requests,
    serve(content) {
      if (typeof content === 'function') {
        listener = content as RequestListener;
        return;
      }
      const etag = `"${++served}"`;
      listener = ({ headers }, response) => {
        if (headers['if-none-match'] === etag) response.writeHead(304).end();
        else response.writeHead(200, { etag }).end(JSON.stringify(content));
      };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
