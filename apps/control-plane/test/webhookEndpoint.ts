import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

interface ReceivedMessage {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A server on loopback that a webhook posts to. It accepts each message unless told otherwise. */
export interface WebhookEndpoint {
  readonly url: string;
  readonly host: string;
  readonly received: ReceivedMessage[];
  answer(listener: RequestListener): void;
  close(): Promise<void>;
}

export async function startWebhookEndpoint(): Promise<WebhookEndpoint> {
  const accept: RequestListener = (_request, response) => void response.writeHead(204).end();
  let listener = accept;
  const received: ReceivedMessage[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      received.push({ headers: request.headers, text });
      listener(request, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `http://${host}/hook`,
    host,
    received,
    answer(next) {
      listener = next;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
