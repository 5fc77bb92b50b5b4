import { createServer, type IncomingHttpHeaders, type IncomingMessage, request as send } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

/** A request as a client sent it. */
interface SentRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  body: string;
  /** Of the response, once it has begun. */
  status?: number;
}

/** Between a client and a service: passes everything on as it is, and remembers the requests. */
export interface Tap {
  readonly url: string;
  readonly sent: readonly SentRequest[];
  /** Until it is cleared, calls this at each request, before the service has it. */
  onSent(listener: (request: SentRequest) => void): void;
  clear(): void;
  close(): Promise<void>;
}

export async function startTap(target: string, rewrite = (path: string) => path): Promise<Tap> {
  const sent: SentRequest[] = [];
  let listener: ((request: SentRequest) => void) | undefined;
  const to = new URL(target);
  const remember = ({ method = '', url = '', headers }: IncomingMessage) => {
    const request: SentRequest = { method, path: url, headers, body: '' };
    sent.push(request);
    listener?.(request);
    return request;
  };
  const server = createServer((request, response) => {
    const seen = remember(request);
    const { method, headers } = request;
    const path = rewrite(request.url ?? '/');
    const onward = send({ host: to.hostname, port: to.port, method, path, headers });
    request.on('data', (data) => {
      seen.body += data;
    });
    request.pipe(onward);
    onward.on('response', (answer) => {
      seen.status = answer.statusCode ?? 0;
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
  });
  server.on('upgrade', (request, socket, head) => {
    const seen = remember(request);
    const onward = connect(Number(to.port), to.hostname, () => {
      const lines = request.rawHeaders.flatMap((name, at, all) =>
        at % 2 === 0 ? [`${name}: ${all[at + 1]}`] : [],
      );
      onward.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      onward.write(head);
      socket.pipe(onward).pipe(socket);
    });
    onward.once('data', (data) => {
      seen.status = Number(String(data).split(' ')[1]);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent,
    onSent(called) {
      listener = called;
    },
    clear() {
      sent.length = 0;
      listener = undefined;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A proxy for everything that is not on this machine: it remembers the hosts that were asked for, and refuses. */
export interface DeadEnd {
  readonly url: string;
  readonly hosts: readonly string[];
  clear(): void;
  close(): Promise<void>;
}

export async function startDeadEnd(): Promise<DeadEnd> {
  const hosts: string[] = [];
  const server = createServer((request, response) => {
    hosts.push(request.url ?? '');
    response.writeHead(403).end();
  });
  server.on('connect', (request, socket) => {
    hosts.push(request.url ?? '');
    socket.on('error', () => socket.destroy());
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hosts,
    clear() {
      hosts.length = 0;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
